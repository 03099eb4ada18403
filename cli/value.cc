#include "cli/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/elastic_value.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

constexpr std::size_t longest_path = 4095;
constexpr std::size_t longest_value = 1024 * 1024;
constexpr int highest_rank = 999'999;
constexpr std::string_view by_number = "fd:";

bool only_of(std::string_view text, std::string_view extra) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           extra.find(c) != std::string_view::npos;
  });
}

struct Complaint {
  std::string expected;
  std::string hint{};
};

std::optional<Complaint> check_integer(const OptionInfo& row, std::string_view text) {
  const auto number = parse_unsigned<std::uint64_t>(text);
  if (number && *number >= row.min && *number <= row.max) return std::nullopt;
  const bool partition = row.option == Option::ssh_port && only_of(text.substr(0, 1), "") && !number;
  return Complaint{fmt::format("a whole number from {} to {}", row.min, row.max),
                   partition ? "-p is the port of sshd; srun's -p PARTITION is for sbatch or salloc" : ""};
}

// With a 1 for its first number it would be a time.
bool is_too_long(std::string_view text) {
  const auto rest = text.substr(std::min(text.find_first_not_of("0123456789"), text.size()));
  return rest.size() < text.size() && parse_duration(fmt::format("1{}", rest));
}

std::optional<Complaint> check_duration(const OptionInfo& row, std::string_view text) {
  const auto time = parse_duration(text);
  if (time && (row.min == 0 || *time > Duration::zero())) return std::nullopt;
  if (!time && is_too_long(text))
    return Complaint{"a time that can be waited for: it is longer than ten years"};
  return Complaint{row.min == 0 ? "a time" : "a time above zero",
                   "write seconds, or 250ms, 90s, 5m, 2h, 1:30:00"};
}

// What other launchers bind to, and this one does not.
std::string advice_on_binding(std::string_view text) {
  if (text == "hwthread") return "write --bind-to core: a rank has all hardware threads of its core";
  if (text.ends_with("cache")) return "write --bind-to l3cache or core, or --cpus-per-rank N";
  if (text == "board" || text == "package") return "write --bind-to socket";
  return {};
}

// What mpirun maps by, and this one does not.
Complaint about_mapping(std::string_view text) {
  Complaint out{"slot, host or ppr:N:PART"};
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (has(":PE=") || has(":pe=")) {
    out.hint = "write --cpus-per-rank N for PE=N";
  } else if (has(":OVERSUBSCRIBE") || has(":oversubscribe")) {
    out.hint = "write --oversubscribe beside --map-by slot or host";
  } else if (text.starts_with("ppr:")) {
    out.hint = "write N, from 1, and host, socket, numa, l3cache or core, as in ppr:2:socket";
  } else if (has("core") || has("socket") || has("numa") || has("cache") || has("hwthread") ||
             has("package")) {
    out.hint = "write --map-by slot or host, and --bind-to core, numa or socket for the place on a host";
  } else if (const auto near = nearest(text, {"slot", "host", "node", "ppr"})) {
    out.hint = fmt::format("did you mean {}?", *near);
  }
  return out;
}

std::optional<Complaint> check_choice(const OptionInfo& row, std::string_view text) {
  if (std::find(row.choices.begin(), row.choices.end(), text) != row.choices.end()) return std::nullopt;
  const auto near = nearest(text, {row.choices.begin(), row.choices.end()});
  std::string hint = near ? fmt::format("did you mean {}?", *near) : "";
  if (const auto advice = advice_on_binding(text); row.option == Option::bind_to && !advice.empty())
    hint = advice;
  if (!near && row.option == Option::env && is_variable_name(text))  // Hydra's -env NAME VALUE
    hint = fmt::format("a variable is given as -x {}=VALUE", text);
  return Complaint{fmt::format("one of {}", fmt::join(row.choices, ", ")), std::move(hint)};
}

std::optional<Complaint> check_text(const OptionInfo& row, std::string_view text) {
  switch (row.option) {
    case Option::module:
      if (is_variable_name(text.substr(0, 1)) && only_of(text, "_.") && text.size() <= 255)
        return std::nullopt;
      return Complaint{"the name of a python module, such as package.train"};
    case Option::preload:
      if (parse_preload(text)) return std::nullopt;
      return Complaint{"auto, or names of python modules, such as torch,lightning"};
    case Option::role:
    case Option::rdzv_id:
      if (!text.empty() && only_of(text, "._-") && text.size() <= 255) return std::nullopt;
      return Complaint{"a name of letters, digits and . _ -"};
    case Option::redirects:
      if (parse_redirects(text)) return std::nullopt;
      return Complaint{"0, 1 (stdout), 2 (stderr) or 3 (both), or one for a local rank each, as in 0:3,1:1"};
    case Option::network_interface:
      if (only_of(text.substr(0, 1), "") && only_of(text, "._-:@") && text.size() <= 15) return std::nullopt;
      return Complaint{"the name of a network interface, such as eth0"};
    case Option::agent_dir:
      // plain characters only: the path becomes a word of a login shell of any kind
      if ((text.starts_with('/') || text.starts_with("~/")) && only_of(text.substr(1), "/._-+@%:=,") &&
          text.size() <= 1024)
        return std::nullopt;
      return Complaint{"a directory of the hosts: / or ~/, then letters, digits and /._-+@%:=,"};
    default:
      return std::nullopt;
  }
}

std::optional<Complaint> check_export(std::string_view text) {
  if (parse_export(text)) return std::nullopt;
  return Complaint{
      "NAME, NAME* or NAME=VALUE, where a name has letters, digits and _ and begins with no digit"};
}

std::optional<Complaint> check_discovery(std::string_view text) {
  if (parse_discovery(text)) return std::nullopt;
  Complaint out{"script:CMD, file:PATH, dns:NAME or slurm"};
  if (text.find(':') == std::string_view::npos) out.hint = fmt::format("write script:{}", quoted(text));
  return out;
}

std::optional<Complaint> check_sink(std::string_view text) {
  constexpr std::uint16_t first_free = 3;
  const auto descriptor = parse_descriptor(text);
  if (text == "-" || descriptor.value_or(first_free) < first_free)
    return Complaint{
        "a file, or fd:N from fd:3 on",
        "stdin, stdout and stderr are the ranks': write a file, a named pipe, or fd:3 and 3>..."};
  if (!descriptor && text.starts_with(by_number))
    return Complaint{"a file, or fd:N with the number of an open descriptor",
                     "a file of that name is ./fd:..."};
  if (text.size() <= longest_path) return std::nullopt;
  return Complaint{fmt::format("a path of at most {} bytes", longest_path)};
}

std::optional<Complaint> complaint(const OptionInfo& row, std::string_view text) {
  switch (row.type) {
    case Type::flag:
      return parse_bool(text) ? std::nullopt : std::optional(Complaint{"true or false"});
    case Type::count:
      return text == "true" || check_integer(row, text) == std::nullopt
                 ? std::nullopt
                 : std::optional(Complaint{fmt::format("a number from 0 to {}", row.max)});
    case Type::integer:
      return check_integer(row, text);
    case Type::per_host:
      if (std::find(row.choices.begin(), row.choices.end(), text) != row.choices.end()) return std::nullopt;
      if (auto complaint = check_integer(row, text))
        return Complaint{fmt::format("{}, gpu, cpu or auto", complaint->expected)};
      return std::nullopt;
    case Type::duration:
      return check_duration(row, text);
    case Type::choice:
      return check_choice(row, text);
    case Type::text:
      return check_text(row, text);
    case Type::path:
      return text.size() <= longest_path
                 ? std::nullopt
                 : std::optional(Complaint{fmt::format("a path of at most {} bytes", longest_path)});
    case Type::sink:
      return check_sink(text);
    case Type::map_by:
      return parse_map_by(text) ? std::nullopt : std::optional(about_mapping(text));
    case Type::ranks:
      return parse_ranks(text) ? std::nullopt : std::optional(Complaint{"a list of ranks such as 0,2-3"});
    case Type::stdin_to:
      return parse_stdin(text) ? std::nullopt : std::optional(Complaint{"a rank, all or none"});
    case Type::port_range:
      return parse_port_range(text)
                 ? std::nullopt
                 : std::optional(Complaint{"a range of ports such as 20000-20100, from 1 to 65535"});
    case Type::export_name:
      return check_export(text);
    case Type::host_range:
      return parse_host_range(text) ? std::nullopt
                                    : std::optional(Complaint{"a number of hosts, N or MIN:MAX"});
    case Type::restarts:
      return parse_restart_limit(text)
                 ? std::nullopt
                 : std::optional(Complaint{"a number of restarts, as in 3, or 3/10m: 3 within 10 minutes"});
    case Type::time_range:
      return parse_time_range(text)
                 ? std::nullopt
                 : std::optional(Complaint{"two times, the shorter one first, as in 10 300"});
    case Type::signal:
      return parse_signal(text)
                 ? std::nullopt
                 : std::optional(Complaint{
                       fmt::format("a signal that a program can handle: {}", fmt::join(row.choices, ", "))});
    case Type::discovery:
      return check_discovery(text);
    case Type::hosts:
    case Type::topic:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

// srun's --export says which variables go, ours names one.
static Result<void> not_of_srun(std::string_view value) {
  const auto first = value.substr(0, value.find(','));
  if (first != "ALL" && first != "NONE" && first != "NIL") return {};
  return fail(
      Code::usage, fmt::format("--export {}: that is srun's, and ours names variables", quoted(value)),
      fmt::format("write --env {}{}", first == "ALL" ? "all" : "none",
                  first.size() < value.size() ? " -x NAME or NAME=VALUE for each of the others" : ""));
}

Result<void> check_setting(const Setting& setting) {
  const OptionInfo& row = info(setting.option);
  const Code code = setting.origin.starts_with('-') ? Code::usage : Code::config;
  const auto refuse = [&](const std::string& expected, std::string hint) {
    // A value may be a secret, and logs keep what we say.
    const auto shown =
        row.type == Type::export_name ? setting.value.substr(0, setting.value.find('=')) : setting.value;
    const auto rest = shown.size() < setting.value.size() ? "=..." : "";
    return fail(code, fmt::format("{}: {}{} is not {}", setting.origin, quoted(shown), rest, expected),
                std::move(hint));
  };
  if (setting.value.find('\0') != std::string::npos) return refuse("text: it holds a NUL byte", "");
  if (setting.value.size() > longest_value) return refuse("shorter than 1 MiB", "");
  if (setting.value.empty() && row.type != Type::topic) {
    return fail(code, fmt::format("{}: the value is empty", setting.origin),
                row.value_name.empty() ? "" : fmt::format("write {} {}", row.name, row.value_name));
  }
  if (setting.option == Option::export_name && setting.origin == "--export") {
    if (auto ok = not_of_srun(setting.value); !ok) return ok;
  }
  auto bad = complaint(row, setting.value);
  if (!bad) return {};
  // The next word was taken for a number that was forgotten.
  const bool forgotten = row.type == Type::integer && code == Code::usage &&
                         setting.value.find_first_of("0123456789") == std::string::npos;
  if (forgotten && bad->hint.empty()) bad->hint = fmt::format("write {} {}", setting.origin, row.value_name);
  return refuse(bad->expected, std::move(bad->hint));
}

std::optional<Error> misfit(std::string_view spelled, const std::string& value) {
  const auto* option = find_option(spelled);
  if (option == nullptr) return std::nullopt;
  const auto ok = check_setting({option->option, value, std::string(spelled)});
  return ok ? std::nullopt : std::optional(ok.error());
}

std::optional<bool> parse_bool(std::string_view text) {
  for (const std::string_view yes : {"true", "yes", "on", "1"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"false", "no", "off", "0"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

std::optional<HostPart> parse_part(std::string_view text) {
  constexpr std::pair<std::string_view, HostPart> words[] = {
      {"host", HostPart::host},      {"node", HostPart::host}, {"socket", HostPart::socket},
      {"package", HostPart::socket}, {"numa", HostPart::numa}, {"l3cache", HostPart::l3cache},
      {"l3", HostPart::l3cache},     {"core", HostPart::core},
  };
  for (const auto& [word, part] : words)
    if (text == word) return part;
  return std::nullopt;
}

std::optional<MapWay> parse_map_by(std::string_view text) {
  if (text == "slot") return MapWay{MapBy::slot};
  if (text == "host" || text == "node") return MapWay{MapBy::host};
  const auto words = split(text, ':');
  if (words.size() != 3 || words[0] != "ppr") return std::nullopt;
  const auto part = parse_part(words[2]);
  const auto count = parse_unsigned<std::uint32_t>(words[1]);
  if (!part || !count || *count < 1 || *count > 65536) return std::nullopt;
  return MapWay{MapBy::ppr, static_cast<int>(*count), *part};
}

std::optional<std::vector<int>> parse_ranks(std::string_view text) {
  std::vector<int> ranks;
  for (const auto piece : split(text, ',')) {
    const auto dash = piece.find('-');
    const auto first = parse_unsigned<std::uint32_t>(piece.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : parse_unsigned<std::uint32_t>(piece.substr(dash + 1));
    if (!first || !last || *first > *last || *last > highest_rank) return std::nullopt;
    if (ranks.size() + (*last - *first) > highest_rank) return std::nullopt;
    for (auto rank = *first; rank <= *last; ++rank) ranks.push_back(static_cast<int>(rank));
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::optional<PortRange> parse_port_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_unsigned<std::uint16_t>(text.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : parse_unsigned<std::uint16_t>(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *first > *last) return std::nullopt;
  return PortRange{*first, *last};
}

std::optional<StdinWish> parse_stdin(std::string_view text) {
  if (text == "all") return StdinWish{StdinTo::all};
  if (text == "none") return StdinWish{StdinTo::none};
  const auto rank = parse_unsigned<std::uint32_t>(text);
  if (!rank || *rank > highest_rank) return std::nullopt;
  return StdinWish{StdinTo::rank, static_cast<int>(*rank)};
}

// As bash exports its functions: BASH_FUNC_module%%.
bool is_name_of_function(std::string_view name) {
  constexpr std::string_view before = "BASH_FUNC_", after = "%%";
  if (name.size() <= before.size() + after.size() || name.size() > 1024) return false;
  if (!name.starts_with(before) || !name.ends_with(after)) return false;
  name.remove_prefix(before.size());
  name.remove_suffix(after.size());
  return only_of(name, "_-.:");
}

std::optional<Export> parse_export(std::string_view text) {
  const auto equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (equals != std::string_view::npos) {
    if (!is_variable_name(name) && !is_name_of_function(name)) return std::nullopt;
    return Export{name, text.substr(equals + 1)};
  }
  const std::string_view stem = name.ends_with('*') ? name.substr(0, name.size() - 1) : name;
  if (!is_variable_name(stem) && !is_name_of_function(name)) return std::nullopt;
  return Export{name, std::nullopt};
}

std::optional<PreloadSpec> parse_preload(std::string_view text) {
  constexpr std::size_t most = 64, longest = 255;
  if (text == "auto") return PreloadSpec{.automatic = true};
  PreloadSpec spec;
  for (const auto name : split(text, ',')) {
    for (const auto part : split(name, '.'))
      if (!is_variable_name(part)) return std::nullopt;
    if (name.size() > longest || spec.modules.size() == most) return std::nullopt;
    spec.modules.emplace_back(name);
  }
  return spec;
}

std::optional<std::vector<Redirect>> parse_redirects(std::string_view text) {
  const auto streams = [](std::string_view word, Redirect& out) {
    if (word.size() != 1 || word.front() < '0' || word.front() > '3') return false;
    const int bits = word.front() - '0';
    out.out = (bits & 1) != 0;
    out.err = (bits & 2) != 0;
    return true;
  };
  if (Redirect all; streams(text, all)) return std::vector{all};
  std::vector<Redirect> out;
  for (const auto word : split(text, ',')) {
    const auto colon = word.find(':');
    if (Redirect others; colon == std::string_view::npos && out.empty() && streams(word, others)) {
      out.push_back(others);
      continue;
    }
    if (colon == std::string_view::npos) return std::nullopt;
    const auto rank = parse_unsigned<std::uint16_t>(word.substr(0, colon));
    Redirect one;
    if (!rank || !streams(word.substr(colon + 1), one)) return std::nullopt;
    one.local_rank = *rank;
    if (std::any_of(out.begin(), out.end(),
                    [&](const Redirect& other) { return other.local_rank == one.local_rank; }))
      return std::nullopt;
    out.push_back(one);
  }
  return out;
}

std::optional<std::uint16_t> parse_descriptor(std::string_view text) {
  if (!text.starts_with(by_number)) return std::nullopt;
  return parse_unsigned<std::uint16_t>(text.substr(by_number.size()));
}

bool is_variable_name(std::string_view text) {
  return !text.empty() && text.size() <= 1024 && !(text.front() >= '0' && text.front() <= '9') &&
         only_of(text, "_");
}

}  // namespace trainrun::cli
