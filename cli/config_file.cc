#include "cli/config_file.h"

#include <fmt/format.h>

// toml++ 3.3 meets some malformed headers (`[=`, `[[[`) with an assertion, which is undefined behaviour in a
// release build. Here its assertions are always on, and throw.
namespace trainrun::cli {
struct TomlAssertion {};
[[noreturn]] inline void toml_assertion_failed() { throw TomlAssertion(); }
}  // namespace trainrun::cli
#undef NDEBUG
#define TOML_ASSERT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::trainrun::cli::toml_assertion_failed())
#include <toml++/toml.h>

#include <algorithm>

#include "cli/value.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

constexpr std::size_t largest_file = 1024 * 1024;

// What a key may hold besides the settings of the option table.
constexpr std::string_view command_key = "command", env_key = "env", program_key = "program";

class Reader {
 public:
  explicit Reader(std::string_view path) : path_(path) {}

  Result<ConfigFile> read(const toml::table& root) {
    if (auto ok = table(root, "", out_.settings); !ok) return tl::unexpected(ok.error());
    if (!single_.program.empty() || !single_.settings.empty()) {
      if (!out_.programs.empty()) {
        return fail(Code::config,
                    fmt::format("{}: command or module, and [[program]] as well", single_origin_),
                    "keep one of them");
      }
      out_.programs.push_back(std::move(single_));
      out_.programs_origin = single_origin_;
    }
    return std::move(out_);
  }

 private:
  std::string at(const toml::source_region& region) const {
    return fmt::format("{}:{}:{}", path_, region.begin.line, region.begin.column);
  }

  static tl::unexpected<Error> wrong(const std::string& origin, std::string_view key,
                                     std::string_view expected, const toml::node& node) {
    const std::string_view got = node.is_string()           ? "a string"
                                 : node.is_integer()        ? "an integer"
                                 : node.is_floating_point() ? "a number"
                                 : node.is_boolean()        ? "true or false"
                                 : node.is_array()          ? "an array"
                                 : node.is_table()          ? "a table"
                                                            : "a date or time";
    return fail(Code::config, fmt::format("{}: {} must be {}, not {}", origin, key, expected, got));
  }

  static const OptionInfo* option_of(std::string_view path) {
    for (const auto& row : options()) {
      if (!row.toml.empty() && row.toml == path) return &row;
    }
    return nullptr;
  }

  static bool is_section(std::string_view name) {
    return std::any_of(options().begin(), options().end(), [&](const OptionInfo& row) {
      return row.toml.size() > name.size() && row.toml.starts_with(name) && row.toml[name.size()] == '.';
    });
  }

  Result<void> table(const toml::table& in, std::string_view section, std::vector<Setting>& into) {
    for (const auto& [key, node] : in) {
      const std::string path =
          section.empty() ? std::string(key.str()) : fmt::format("{}.{}", section, key.str());
      Result<void> ok;
      if (const OptionInfo* row = option_of(path)) {
        ok = row->option == Option::module ? module(node, single_, single_origin_)
                                           : setting(*row, path, node, into);
      } else if (section.empty() && path == command_key) {
        ok = command(node, single_, single_origin_);
      } else if (section.empty() && path == env_key) {
        ok = environment(node, into);
      } else if (section.empty() && path == program_key) {
        ok = programs(node);
      } else if (section.empty() && is_section(path)) {
        const auto* inner = node.as_table();
        ok = inner == nullptr ? Result<void>(wrong(at(node.source()), path, "a table", node))
                              : table(*inner, path, into);
      } else {
        ok = unknown(key, path, section);
      }
      if (!ok) return ok;
    }
    return {};
  }

  Result<void> unknown(const toml::key& key, const std::string& path, std::string_view section) const {
    std::vector<std::string> candidates;
    std::string elsewhere;
    std::string plain(key.str());
    std::replace(plain.begin(), plain.end(), '-', '_');
    for (const auto& row : options()) {
      if (row.toml.empty()) continue;
      candidates.emplace_back(row.toml);
      const auto dot = row.toml.rfind('.');
      const std::string_view last = dot == std::string_view::npos ? row.toml : row.toml.substr(dot + 1);
      std::string flag(row.name.substr(2));
      std::replace(flag.begin(), flag.end(), '-', '_');
      if (plain == last || plain == flag) elsewhere = row.toml;
    }
    if (section.empty()) {
      for (const auto extra : {command_key, env_key, program_key}) candidates.emplace_back(extra);
    }
    std::string hint = "man trainrun-hosts lists the keys";
    if (const auto near = nearest(path, candidates)) hint = fmt::format("did you mean {}?", *near);
    if (!elsewhere.empty()) hint = fmt::format("it is written {}", elsewhere);
    return fail(Code::config, fmt::format("{}: unknown key {}", at(key.source()), quoted(path)), hint);
  }

  // One word of a value; nothing for kinds that have no place on a command line.
  static std::optional<std::string> scalar(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
    return std::nullopt;
  }

  Result<void> setting(const OptionInfo& row, const std::string& key, const toml::node& node,
                       std::vector<Setting>& into) {
    const std::string origin = at(node.source());
    const auto add = [&](std::string value) -> Result<void> {
      Setting made{row.option, std::move(value), origin};
      if (auto ok = check_setting(made); !ok) {
        // the message begins with the origin; the key makes it complete
        ok.error().message.insert(origin.size(), fmt::format(": {}", key));
        return ok;
      }
      into.push_back(std::move(made));
      return {};
    };
    switch (row.type) {
      case Type::flag:
        if (const auto* value = node.as_boolean()) return add(value->get() ? "true" : "false");
        return wrong(origin, key, "true or false", node);
      case Type::count:
      case Type::integer:
        if (const auto* value = node.as_integer()) return add(fmt::format("{}", value->get()));
        return wrong(origin, key, "an integer", node);
      case Type::duration:
        if (const auto* value = node.as_floating_point()) return add(fmt::format("{}", value->get()));
        if (auto value = scalar(node)) return add(std::move(*value));
        return wrong(origin, key, "seconds, or a string such as \"90s\"", node);
      case Type::hosts:
      case Type::ranks:
      case Type::export_name:
        return list(row, key, node, add);
      case Type::stdin_to:
        if (auto value = scalar(node)) return add(std::move(*value));
        return wrong(origin, key, "a rank, \"all\" or \"none\"", node);
      case Type::host_range:
      case Type::restarts:
        if (auto value = scalar(node)) return add(std::move(*value));
        return wrong(origin, key, "an integer or a string", node);
      case Type::time_range:
        return pair_of_times(key, node, add);
      default:
        if (const auto* value = node.as_string()) return add(value->get());
        return wrong(origin, key, "a string", node);
    }
  }

  template <class Add>
  Result<void> list(const OptionInfo& row, const std::string& key, const toml::node& node, const Add& add) {
    const bool ranks = row.type == Type::ranks;
    const std::string_view expected =
        ranks ? "a string such as \"0,2-3\" or an array of ranks" : "a string or an array of strings";
    const auto* items = node.as_array();
    if (items == nullptr) {
      if (const auto* value = node.as_string()) return add(value->get());
      return wrong(at(node.source()), key, expected, node);
    }
    std::string joined;
    for (const auto& item : *items) {
      auto word = ranks ? scalar(item) : item.is_string() ? scalar(item) : std::nullopt;
      if (!word) return wrong(at(item.source()), key, expected, item);
      if (row.type == Type::export_name) {
        if (auto ok = add(*word); !ok) return ok;
        continue;
      }
      if (!joined.empty()) joined += ',';
      joined += *word;
    }
    return row.type == Type::export_name ? Result<void>{} : add(joined);
  }

  template <class Add>
  Result<void> pair_of_times(const std::string& key, const toml::node& node, const Add& add) {
    constexpr std::string_view expected = "two times, as in [10, \"5m\"] or \"10 300\"";
    if (const auto* value = node.as_string()) return add(value->get());
    const auto* items = node.as_array();
    if (items == nullptr || items->size() != 2) return wrong(at(node.source()), key, expected, node);
    std::string joined;
    for (const auto& item : *items) {
      const auto word = scalar(item);
      if (!word) return wrong(at(item.source()), key, expected, item);
      joined += (joined.empty() ? "" : " ") + *word;
    }
    return add(joined);
  }

  Result<void> module(const toml::node& node, ArgvPart& part, std::string& origin) {
    origin = at(node.source());
    const auto* name = node.as_string();
    if (name == nullptr) return wrong(origin, "module", "a string", node);
    Setting made{Option::module, name->get(), origin};
    if (auto ok = check_setting(made); !ok) return ok;
    part.settings.push_back(std::move(made));
    return {};
  }

  Result<void> command(const toml::node& node, ArgvPart& part, std::string& origin) {
    origin = at(node.source());
    const auto* items = node.as_array();
    if (items == nullptr) {
      return fail(Code::config, fmt::format("{}: command must be an array of words", origin),
                  "write it as [\"python3\", \"train.py\", \"--epochs\", \"3\"]; no shell reads it");
    }
    for (const auto& item : *items) {
      auto word = scalar(item);
      if (!word) return wrong(at(item.source()), "command", "an array of strings", item);
      if (word->find('\0') != std::string::npos) {
        return fail(Code::config, fmt::format("{}: a word of command holds a NUL byte", at(item.source())));
      }
      part.program.push_back(std::move(*word));
    }
    return {};
  }

  Result<void> environment(const toml::node& node, std::vector<Setting>& into) {
    const auto* names = node.as_table();
    if (names == nullptr) return wrong(at(node.source()), env_key, "a table of NAME = \"VALUE\"", node);
    for (const auto& [name, value] : *names) {
      const auto text = scalar(value);
      if (!text)
        return wrong(at(value.source()), fmt::format("env.{}", harmless(name.str())), "a string", value);
      if (!is_variable_name(name.str())) {
        return fail(
            Code::config,
            fmt::format("{}: {} is not the name of a variable", at(name.source()), quoted(name.str())),
            "names have letters, digits and _ and begin with no digit");
      }
      Setting made{Option::export_name, fmt::format("{}={}", name.str(), *text), at(value.source())};
      if (auto ok = check_setting(made); !ok) return ok;
      into.push_back(std::move(made));
    }
    return {};
  }

  Result<void> programs(const toml::node& node) {
    const auto* items = node.as_array();
    if (items == nullptr)
      return wrong(at(node.source()), program_key, "an array of tables, [[program]]", node);
    out_.programs_origin = at(node.source());
    for (const auto& item : *items) {
      const auto* in = item.as_table();
      if (in == nullptr) return wrong(at(item.source()), program_key, "a table", item);
      ArgvPart part;
      std::string ignored;
      for (const auto& [key, value] : *in) {
        const std::string name(key.str());
        Result<void> ok;
        if (name == command_key) {
          ok = command(value, part, ignored);
        } else if (name == "module") {
          ok = module(value, part, ignored);
        } else if (name == env_key) {
          ok = environment(value, part.settings);
        } else if (name == "np" || name == "wdir") {
          ok = setting(*option_of(name), name, value, part.settings);
        } else {
          ok = fail(Code::config,
                    fmt::format("{}: unknown key {} of a program", at(key.source()), quoted(name)),
                    "a program has np, command or module, wdir and env");
        }
        if (!ok) return ok;
      }
      out_.programs.push_back(std::move(part));
    }
    return {};
  }

  std::string path_;
  ConfigFile out_;
  ArgvPart single_;
  std::string single_origin_;
};

// What toml++ makes of the text; nothing when it met an assertion.
std::optional<Result<ConfigFile>> parsed(std::string_view content, std::string_view path) {
  try {
    const toml::table root = toml::parse(content, path);
    return Reader(path).read(root);
  } catch (const toml::parse_error& error) {
    const auto& where = error.source().begin;
    return fail(Code::config,
                fmt::format("{}:{}:{}: {}", path, where.line, where.column, harmless(error.description())));
  } catch (const TomlAssertion&) {
    return std::nullopt;
  }
}

// The parser reads from left to right, so the assertion is met by every text that holds the bad byte and by
// none that ends before it: halving finds it.
Error malformed(std::string_view content, std::string_view path) {
  std::size_t good = 0, bad = content.size();
  while (good + 1 < bad) {
    const auto middle = good + (bad - good) / 2;
    (parsed(content.substr(0, middle), path) ? good : bad) = middle;
  }
  const auto before = content.substr(0, bad == 0 ? 0 : bad - 1);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const auto newline = before.rfind('\n');
  const auto column = before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
  return Error{Code::config, fmt::format("{}:{}:{}: expected a key", path, line, column), ""};
}

}  // namespace

Result<ConfigFile> read_config_file(std::string_view content, std::string_view path) {
  if (content.size() > largest_file) {
    return fail(Code::config,
                fmt::format("{}: the file has {} bytes, more than 1 MiB", path, content.size()));
  }
  if (auto result = parsed(content, path)) return std::move(*result);
  return tl::unexpected(malformed(content, path));
}

}  // namespace trainrun::cli
