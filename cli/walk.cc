#include "cli/walk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

constexpr std::size_t most_hints = 6, most_unknown = 32;  // of unknown flags, in one line
constexpr std::size_t longest_word = 128 * 1024;          // the kernel's own limit for one word of an argv

// A flag as it was typed, cut at its first '='.
struct Typed {
  const std::string& word;
  std::size_t equals = word.find('=');
  std::string spelled = word.substr(0, equals);

  [[nodiscard]] bool has_value() const { return equals != std::string::npos; }
  [[nodiscard]] std::string value() const { return word.substr(equals + 1); }
};

class Walk {
 public:
  Walk(const CommandLine& line, std::span<const std::string> given) : line_(line), given_(given) {}

  Result<Walked> run() {
    while (at_ < given_.size() && !ended_) {
      if (auto ok = step(given_[at_]); !ok)
        return tl::unexpected(unknown_.empty() ? ok.error() : unknown_flags());
    }
    if (!unknown_.empty()) return tl::unexpected(unknown_flags());
    if (later_ != nullptr) {
      if (at_ == given_.size()) return tl::unexpected(missing(*later_, {spelled_later_}, "").error());
      put(*std::exchange(later_, nullptr), spelled_later_, given_[at_++]);
    }
    out_.used = at_;
    return std::move(out_);
  }

 private:
  Result<void> step(const std::string& word) {
    if (line_.program && word == "--") {
      ++at_;
      ended_ = true;
      return {};
    }
    if (word.starts_with("\xe2\x80\x93") || word.starts_with("\xe2\x80\x94"))
      return fail(Code::usage, fmt::format("{} begins with a typographic dash", quoted(word, 40)),
                  "type a plain '-'");
    if (word.starts_with('-') && (word.size() > 1 || line_.program)) return flag({word});
    ended_ = line_.program;
    if (ended_) return {};
    out_.words.push_back(word);
    ++at_;
    return {};
  }

  Result<void> flag(const Typed& typed) {
    if (typed.word.size() > longest_word)
      return fail(Code::usage,
                  fmt::format("the flag {} is {} bytes long", quoted(typed.word, 40), typed.word.size()));
    const Flag* flag = find_flag(line_, typed.spelled);
    if (flag == nullptr) return repeated_letter(typed);
    ++at_;
    ended_ = flag->ends_flags;
    switch (flag->takes) {
      case Takes::nothing:
        if (typed.has_value()) return unknown(typed);
        put(*flag, typed.spelled);
        return {};
      case Takes::yes_or_no:
      case Takes::a_count:
        if (typed.has_value() && typed.value().empty()) return missing(*flag, typed, ", but it is empty");
        put(*flag, typed.spelled, typed.has_value() ? typed.value() : "true");
        return {};
      case Takes::a_topic:
        return topic(*flag, typed);
      case Takes::a_value:
      case Takes::two_values:
      case Takes::a_pair:
        return value(*flag, typed);
    }
    return {};
  }

  // Who brings a line of another launcher hears of all that is foreign in it at once. Whether the next word
  // is the value of such a flag nobody knows: one that looks like a program ends the search.
  Result<void> unknown(const Typed& typed) {
    auto error = line_.unknown(typed.word);
    if (!line_.program) return tl::unexpected(std::move(error));
    if (auto forgotten = value_was_forgotten()) return tl::unexpected(std::move(*forgotten));
    unknown_.emplace_back(typed.spelled, std::move(error));
    if (unknown_.size() == most_unknown) return tl::unexpected(unknown_flags());
    if (typed.has_value() || at_ == given_.size() || given_[at_].starts_with('-')) return {};
    const auto meant = nearest_flag(line_, typed.spelled);
    ended_ = looks_like_a_program(given_[at_]) || (meant && !find_flag(line_, *meant)->takes_value());
    ++at_;
    return {};
  }

  // The flag before took the program for its value, as in `-np sh -c true`: the one that is unknown is the
  // program's then.
  [[nodiscard]] std::optional<Error> value_was_forgotten() const {
    if (line_.misfit == nullptr || !unknown_.empty() || out_.found.empty()) return std::nullopt;
    const auto& [flag, spelled] = out_.found.back();
    return flag->takes_value() ? line_.misfit(spelled, out_.words.back()) : std::nullopt;
  }

  static bool looks_like_a_program(std::string_view word) {
    return word.find('/') != std::string_view::npos || word.starts_with("python") || word.ends_with(".py") ||
           word.ends_with(".sh") || word == "sh" || word == "bash" || word == "env";
  }

  [[nodiscard]] Error unknown_flags() const {
    std::vector<std::string> names, hints;
    std::vector<std::pair<std::string, std::vector<std::string>>> by_hint;
    for (const auto& [spelled, error] : unknown_) {
      auto name = quoted(spelled);
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      auto same = std::find_if(by_hint.begin(), by_hint.end(),
                               [&](const auto& one) { return one.first == error.hint; });
      if (same == by_hint.end()) same = by_hint.insert(same, {error.hint, {}});
      same->second.push_back(name);
      names.push_back(std::move(name));
    }
    if (names.size() == 1) return unknown_.front().second;
    for (const auto& [hint, of] : by_hint) {
      if (hints.size() < most_hints) hints.push_back(fmt::format("{}: {}", list_names(of), hint));
    }
    return {unknown_.front().second.code, fmt::format("unknown flags {}", list_names(names)),
            fmt::format("{}", fmt::join(hints, "; "))};
  }

  // -vv and -vvv
  Result<void> repeated_letter(const Typed& typed) {
    const auto& letters = typed.spelled;
    const Flag* flag = letters.size() < 3 ? nullptr : find_flag(line_, letters.substr(0, 2));
    if (flag == nullptr || flag->takes != Takes::a_count || letters.size() > 4 ||
        letters.find_first_not_of(letters[1], 1) != std::string::npos) {
      ++at_;
      return unknown(typed);
    }
    if (typed.has_value()) return fail(Code::usage, fmt::format("{} takes no value", letters));
    for (std::size_t i = 1; i < letters.size(); ++i) put(*flag, letters.substr(0, 2), "true");
    ++at_;
    return {};
  }

  Result<void> value(const Flag& flag, const Typed& typed) {
    std::string text = typed.has_value() ? typed.value() : std::string();
    if (!typed.has_value()) {
      if (at_ == given_.size()) return missing(flag, typed, "");
      text = given_[at_++];
      const bool is_flag =
          text.starts_with('-') && find_flag(line_, text.substr(0, text.find('='))) != nullptr;
      // torchrun's -m has no value: the module stands where a program would.
      if (flag.ends_flags && is_flag) {
        --at_;
        ended_ = false;
        later_ = &flag;
        spelled_later_ = typed.spelled;
        return {};
      }
      if (text == "--" || is_flag)
        return missing(flag, typed, fmt::format(", but the next word is {}", quoted(text)));
    }
    if (text.empty() && line_.program) return missing(flag, typed, ", but it is empty");
    if (flag.takes == Takes::two_values && !typed.has_value() &&
        text.find_first_of(" ,") == std::string::npos) {
      if (at_ == given_.size() || given_[at_].starts_with('-')) return missing(flag, typed, " more");
      text += " " + given_[at_++];
    }
    if (flag.takes == Takes::a_pair && text.find('=') == std::string::npos) {
      if (at_ == given_.size())
        return fail(Code::usage, fmt::format("{}{} needs a name and a value", line_.prefix, typed.spelled),
                    fmt::format("write {} {} VALUE", typed.spelled, quoted(text, 40)));
      text += "=" + given_[at_++];  // which may begin with a dash, or be empty
    }
    if (text.size() > longest_word)
      return fail(
          Code::usage,
          fmt::format("the value of {} is {} bytes long: {}", typed.spelled, text.size(), quoted(text, 40)),
          flag.name == "--host" ? "put long lists of hosts into a file: --hostfile FILE" : "");
    put(flag, typed.spelled, std::move(text));
    return {};
  }

  Result<void> topic(const Flag& flag, const Typed& typed) {
    std::string text;
    if (typed.has_value()) {
      text = typed.value();
    } else if (at_ < given_.size() && given_[at_] == "all") {
      text = given_[at_++];
    }
    if (!text.empty() && text != "all")
      return fail(Code::usage, fmt::format("there is no help on {}", quoted(text)),
                  "write trainrun --help or trainrun --help all");
    put(flag, std::string(flag.name), std::move(text));
    return {};
  }

  Result<void> missing(const Flag& flag, const Typed& typed, const std::string& what) const {
    return fail(Code::usage, fmt::format("{}{} needs a value{}", line_.prefix, typed.spelled, what),
                flag.lookup.empty() ? fmt::format("write {}{}{}", typed.spelled,
                                                  flag.value_name.empty() ? "" : " ", flag.value_name)
                                    : std::string(flag.lookup));
  }

  void put(const Flag& flag, std::string spelled, std::optional<std::string> value = {}) {
    out_.words.emplace_back(flag.name);
    if (value) out_.words.push_back(std::move(*value));
    out_.found.push_back({&flag, std::move(spelled)});
  }

  const CommandLine& line_;
  const std::span<const std::string> given_;
  std::size_t at_ = 0;
  bool ended_ = false;
  const Flag* later_ = nullptr;  // whose value comes behind the flags
  std::string spelled_later_;
  std::vector<std::pair<std::string, Error>> unknown_;  // as typed, and what is to be said
  Walked out_;
};

}  // namespace

Result<Walked> walk(const CommandLine& line, std::span<const std::string> given) {
  return Walk(line, given).run();
}

}  // namespace trainrun::cli
