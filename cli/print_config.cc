#include "cli/print_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/value.h"
#include "launcher/base/strings.h"
#include "launcher/core/env_forward.h"
#include "launcher/core/shown_words.h"

namespace trainrun::cli {

namespace {

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string toml_array(const std::vector<std::string>& words) {
  std::string out = "[";
  for (const auto& word : words) out += (out.size() > 1 ? ", " : "") + toml_string(word);
  return out + "]";
}

// user@name, with brackets around an IPv6 address.
std::string login_text(const Host& host) {
  std::string name = host.name.find(':') == std::string::npos ? host.name : "[" + host.name + "]";
  return host.user.empty() ? name : host.user + "@" + name;
}

// The only words of a host list that hold a port, and they hold no slots: those are as many as by default.
std::string host_url(const Host& host) { return fmt::format("ssh://{}:{}", login_text(host), host.port); }

std::string slots_text(const Host& host) {
  return fmt::format("{} slot{}", host.slots, host.slots == 1 ? "" : "s");
}

std::string value_text(const OptionInfo& row, const Settings& settings) {
  switch (row.type) {
    case Type::flag:
      return settings.flag(row.option) ? "true" : "false";
    case Type::integer:
    case Type::per_host:  // its words were counted
      return settings.text(row.option, "");
    default:
      return toml_string(core::shown_command(settings.text(row.option, "")));
  }
}

class Printer {
 public:
  Printer(const Settings& settings, const std::vector<ArgvPart>& parts, const Resolved& resolved)
      : settings_(settings), parts_(parts), resolved_(resolved), in_tables_(needs_tables(parts)) {}

  std::string run() {
    std::string section;
    for (const bool in_sections : {false, true}) {  // keys of the top come before the first [table]
      for (const auto& row : options()) {
        const auto dot = row.toml.find('.');
        // what to do instead of a run is not part of the job
        if (row.toml.empty() || row.group == Group::actions || (dot != std::string_view::npos) != in_sections)
          continue;
        if (in_sections && row.toml.substr(0, dot) != section) {
          section = row.toml.substr(0, dot);
          out_ += fmt::format("\n[{}]\n", section);
        }
        option(row, row.toml.substr(dot == std::string_view::npos ? 0 : dot + 1));
      }
      if (!in_sections) programs();
    }
    const auto& exports = settings_.all(Option::export_name);
    if (std::any_of(exports.begin(), exports.end(), has_value)) out_ += "\n[env]\n";
    variables("", exports);
    return out_;
  }

 private:
  void line(std::string_view key, const std::string& value, std::string_view origin) {
    out_ += fmt::format("{:<48}  # {}\n", fmt::format("{} = {}", key, value), origin);
  }

  void option(const OptionInfo& row, std::string_view key) {
    const JobSpec& job = resolved_.job;
    if (row.option == Option::np && !in_tables_) {
      line(key, fmt::format("{}", job.world_size()), resolved_.np_origin);
    } else if (row.option == Option::host) {
      hosts(key);
    } else if (row.option == Option::hostfile && settings_.has(row.option) && !own_logins()) {
      out_ += fmt::format("# hostfile = {}: its hosts are above  # {}\n",
                          toml_string(settings_.text(row.option, "")), settings_.get(row.option)->origin);
    } else if (row.option == Option::export_name) {
      forwarded(key, settings_.all(row.option));
    } else if (elastic(row.option, key)) {
      // printed, as it was resolved
    } else if (row.option == Option::module || row.option == Option::np) {
      // with the programs
    } else if (row.option == Option::verbose) {
      if (const Setting* setting = settings_.get(row.option))
        line(key, fmt::format("{}", job.verbose), setting->origin);
    } else if (const Setting* setting = settings_.get(row.option)) {
      note_if_left_out(key, setting->value);
      line(key, value_text(row, settings_), setting->origin);
    } else {
      const std::string_view otherwise = row.type == Type::flag     ? "false"
                                         : row.default_text.empty() ? "none"
                                                                    : row.default_text;
      out_ += fmt::format("{:<48}  # default\n", fmt::format("# {}: {}", key, otherwise));
    }
  }

  // A host's own port and key have no place beside its slots in a host list. The file that they come from
  // stays in force then, and the list chooses among its hosts, as it was written.
  [[nodiscard]] bool own_logins() const {
    const auto& hosts = resolved_.job.hosts.hosts;
    return std::any_of(hosts.begin(), hosts.end(),
                       [](const Host& host) { return host.port != 0 || !host.identity.empty(); });
  }

  void hosts(std::string_view key) {
    const auto& hosts = resolved_.job.hosts.hosts;
    if (hosts.empty()) {
      out_ += fmt::format("{:<48}  # {}\n", fmt::format("# {}: those of now", key), resolved_.hosts_origin);
      return;
    }
    std::vector<std::string> names;
    if (settings_.has(Option::hostfile) && settings_.has(Option::host) && own_logins()) {
      for (const auto& setting : settings_.all(Option::host)) names.push_back(setting.value);
    } else {
      for (const auto& host : hosts) {
        const bool by_url = host.port != 0 && !settings_.has(Option::hostfile);
        names.push_back(by_url ? host_url(host) : fmt::format("{}:{}", login_text(host), host.slots));
      }
    }
    // What is so on this machine alone is not for the file: another one has its own name and cores.
    if (resolved_.hosts_origin == "default") {
      out_ += fmt::format("{:<48}  # default\n", fmt::format("# {}: {}", key, fmt::join(names, ", ")));
      return;
    }
    line(key, toml_array(names), resolved_.hosts_origin);
    for (const auto& host : hosts) {
      if (host.port == 0 && host.identity.empty()) continue;
      std::string login = fmt::format("#   {}: {}", host.name, slots_text(host));
      if (host.port != 0) login += fmt::format(", port {}", host.port);
      if (!host.identity.empty()) login += fmt::format(", key {}", quoted(host.identity, 4096));
      out_ += login + "\n";
    }
  }

  // What follows from other settings: the bounds of the world, and that it is elastic at all.
  bool elastic(Option option, std::string_view key) {
    const Elastic& elastic = resolved_.job.elastic;
    if (option == Option::nnodes && settings_.has(option)) {
      out_ += fmt::format("# {} = {}: np, min_np and max_np say it  # {}\n", key,
                          toml_string(settings_.text(option, "")), settings_.get(option)->origin);
      return true;
    }
    if (!elastic.enabled()) return false;
    if (option == Option::min_np) {
      line(key, fmt::format("{}", elastic.min_np), resolved_.min_np_origin);
    } else if (option == Option::max_np) {
      line(key, fmt::format("{}", elastic.max_np), resolved_.max_np_origin);
    } else if (option == Option::on_failure && !settings_.has(option)) {
      line(key, toml_string("auto"), resolved_.elastic_origin);
    } else {
      return false;
    }
    return true;
  }

  // A directory or variables of its own have no place but in a table of the program.
  static bool needs_tables(const std::vector<ArgvPart>& parts) {
    const auto& first = parts.front().settings;
    return parts.size() > 1 || std::any_of(first.begin(), first.end(), [](const Setting& setting) {
             return setting.option == Option::wdir || setting.option == Option::export_name;
           });
  }

  [[nodiscard]] bool has_directory(const std::vector<Setting>& own) const {
    return settings_.has(Option::wdir) || std::any_of(own.begin(), own.end(), [](const Setting& setting) {
             return setting.option == Option::wdir;
           });
  }

  void programs() {
    const auto& programs = resolved_.job.programs;
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const auto& program = programs[i];
      if (!in_tables_) {
        if (!program.argv.empty()) line("command", command(program.argv), resolved_.program_origin);
        continue;
      }
      out_ += fmt::format("\n[[program]]\nnp = {}\n", program.np);
      if (has_directory(parts_[i].settings))
        out_ += fmt::format("wdir = {}\n", toml_string(program.directory));
      if (!program.argv.empty()) out_ += fmt::format("command = {}\n", command(program.argv));
      own_hosts(parts_[i].settings);
      forwarded("forward", parts_[i].settings);
      variables("env.", parts_[i].settings);
    }
  }

  // What looks like a credential is left out, as it is of variables: the file goes into mails and tickets.
  std::string command(const std::vector<std::string>& argv) {
    auto shown = core::shown_words(argv);
    if (shown != argv) note_left_out("command");
    return toml_array(shown);
  }

  void note_if_left_out(std::string_view key, const std::string& value) {
    if (core::shown_command(value) != value) note_left_out(key);
  }

  void note_left_out(std::string_view key) {
    out_ += fmt::format("# {}: write its credentials where it says {}\n", key, core::redacted);
  }

  void own_hosts(const std::vector<Setting>& from) {
    std::vector<std::string> lists;
    for (const auto& setting : from)
      if (setting.option == Option::host) lists.push_back(setting.value);
    if (!lists.empty()) out_ += fmt::format("hosts = {}\n", toml_array(lists));
  }

  // Names without a value; those with one are in [env].
  void forwarded(std::string_view key, const std::vector<Setting>& from) {
    std::vector<std::string> names, origins;
    for (const auto& setting : from) {
      if (setting.option != Option::export_name) continue;
      const auto parsed = parse_export(setting.value);
      if (!parsed || parsed->value) continue;
      names.emplace_back(parsed->name);
      if (std::find(origins.begin(), origins.end(), setting.origin) == origins.end())
        origins.push_back(setting.origin);
    }
    if (!names.empty()) line(key, toml_array(names), list_names(origins));
  }

  static bool has_value(const Setting& setting) {
    const auto parsed = parse_export(setting.value);
    return parsed && parsed->value;
  }

  void variables(std::string_view before, const std::vector<Setting>& from) {
    std::map<std::string, std::pair<std::string, std::string>> named;
    for (const auto& setting : from) {
      if (setting.option != Option::export_name || !has_value(setting)) continue;
      const auto parsed = parse_export(setting.value);
      named[std::string(parsed->name)] = {std::string(*parsed->value), setting.origin};
    }
    for (const auto& [name, value] : named) {
      if (core::shown_value(name, value.first) != value.first) {
        out_ += fmt::format("# {}{}: redacted  # {}\n", before, name, value.second);
      } else {
        line(fmt::format("{}{}", before, name), toml_string(value.first), value.second);
      }
    }
  }

  const Settings& settings_;
  const std::vector<ArgvPart>& parts_;
  const Resolved& resolved_;
  const bool in_tables_;  // whether programs are written as [[program]]
  std::string out_;
};

}  // namespace

std::string print_config(const Settings& settings, const std::vector<ArgvPart>& parts,
                         const Resolved& resolved) {
  return Printer(settings, parts, resolved).run();
}

}  // namespace trainrun::cli
