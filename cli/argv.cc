#include "cli/argv.h"

#include <fmt/format.h>

#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

constexpr std::size_t longest_word = 128 * 1024;  // the kernel's own limit for one word of an argv

class Splitter {
 public:
  explicit Splitter(const std::vector<std::string>& words) : words_(words) {}

  Result<std::vector<ArgvPart>> run() {
    for (const auto& word : words_) {
      if (word.find('\0') != std::string::npos) {
        return fail(Code::usage,
                    fmt::format("a word of the command line holds a NUL byte: {}", quoted(word)));
      }
    }
    parts_.emplace_back();
    while (at_ < words_.size()) {
      if (auto ok = part(); !ok) return tl::unexpected(ok.error());
    }
    return std::move(parts_);
  }

 private:
  // From the first flag of a part to the `:` that ends it, or to the end.
  Result<void> part() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_];
      if (word == "--") {
        ++at_;
        return program();
      }
      if (word.starts_with("\xe2\x80\x93") || word.starts_with("\xe2\x80\x94")) {
        return fail(Code::usage, fmt::format("{} begins with a typographic dash", quoted(word, 40)),
                    "type a plain '-'");
      }
      if (!word.starts_with('-')) return program();
      if (auto ok = flag(word); !ok) return ok;
      if (!parts_.back().settings.empty() && parts_.back().settings.back().option == Option::module) {
        return program();  // as python's own -m: what follows belongs to the module
      }
    }
    return {};
  }

  Result<void> program() {
    for (; at_ < words_.size(); ++at_) {
      if (words_[at_] != ":") {
        parts_.back().program.push_back(words_[at_]);
        continue;
      }
      const auto& settings = parts_.back().settings;
      const bool has_program =
          !parts_.back().program.empty() || (!settings.empty() && settings.back().option == Option::module);
      if (!has_program || ++at_ == words_.size()) {
        return fail(Code::usage, fmt::format("a program is missing {} ':'", has_program ? "after" : "before"),
                    "a lone ':' stands between programs that share one world; a program that needs ':' as an "
                    "argument can have it from `command = [...]` of a --config file");
      }
      parts_.emplace_back();
      return {};
    }
    return {};
  }

  Result<void> flag(const std::string& word) {
    if (word.size() > longest_word) {
      return fail(Code::usage, fmt::format("the flag {} is {} bytes long", quoted(word, 40), word.size()));
    }
    const auto equals = word.find('=');
    const std::string spelled = word.substr(0, equals);
    const OptionInfo* row = find_option(spelled);
    if (row == nullptr) {
      if (spelled.size() > 2 && spelled.find_first_not_of('v', 1) == std::string::npos &&
          spelled.size() < 5) {
        for (std::size_t i = 1; i < spelled.size(); ++i) set(Option::verbose, "true", "-v");
        return skip_bare(equals, spelled);
      }
      return fail(Code::usage, fmt::format("unknown flag {}", quoted(spelled)),
                  hint_for_unknown_flag(spelled));
    }
    if (row->type == Type::topic) return topic(*row, word, equals);
    if (!row->takes_value()) {
      set(row->option, equals == std::string::npos ? "true" : word.substr(equals + 1), spelled);
      ++at_;
      return {};
    }
    return value(*row, word, equals, spelled);
  }

  Result<void> skip_bare(std::size_t equals, const std::string& spelled) {
    if (equals != std::string::npos) return fail(Code::usage, fmt::format("{} takes no value", spelled));
    ++at_;
    return {};
  }

  Result<void> value(const OptionInfo& row, const std::string& word, std::size_t equals,
                     const std::string& spelled) {
    std::string text;
    if (equals != std::string::npos) {
      text = word.substr(equals + 1);
    } else {
      if (++at_ == words_.size() || words_[at_] == ":") return missing(row, spelled, "");
      text = words_[at_];
      if (text == "--" || (text.starts_with('-') && find_option(text.substr(0, text.find('='))) != nullptr)) {
        return missing(row, spelled, fmt::format(", but the next word is {}", quoted(text)));
      }
    }
    if (text.empty()) return missing(row, spelled, ", but it is empty");
    if (row.takes_two_words() && equals == std::string::npos &&
        text.find_first_of(" ,") == std::string::npos) {
      if (++at_ == words_.size() || words_[at_].starts_with('-')) return missing(row, spelled, " more");
      text += " " + words_[at_];
    }
    if (text.size() > longest_word) {
      return fail(Code::usage,
                  fmt::format("the value of {} is {} bytes long: {}", spelled, text.size(), quoted(text, 40)),
                  row.option == Option::host ? "put long lists of hosts into a file: --hostfile FILE" : "");
    }
    set(row.option, std::move(text), spelled);
    ++at_;
    return {};
  }

  Result<void> topic(const OptionInfo& row, const std::string& word, std::size_t equals) {
    std::string text;
    ++at_;
    if (equals != std::string::npos) {
      text = word.substr(equals + 1);
    } else if (at_ < words_.size() && words_[at_] == "all") {
      text = words_[at_++];
    }
    if (!text.empty() && text != "all") {
      return fail(Code::usage, fmt::format("there is no help on {}", quoted(text)),
                  "write trainrun --help or trainrun --help all");
    }
    set(row.option, std::move(text), std::string(row.name));
    return {};
  }

  static Result<void> missing(const OptionInfo& row, const std::string& spelled, const std::string& what) {
    return fail(Code::usage, fmt::format("{} needs a value{}", spelled, what),
                fmt::format("write {} {}", spelled, row.value_name));
  }

  void set(Option option, std::string value, std::string origin) {
    parts_.back().settings.push_back({option, std::move(value), std::move(origin)});
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  std::vector<ArgvPart> parts_;
};

}  // namespace

Result<std::vector<ArgvPart>> split_argv(const std::vector<std::string>& words) {
  return Splitter(words).run();
}

}  // namespace trainrun::cli
