#include "cli/completion.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/options.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

constexpr std::string_view commands[] = {"completion", "ctl", "rendezvous"};
constexpr std::string_view of_ctl = "world add remove restart stop end list --job --json --help";

std::vector<std::string> spellings(const OptionInfo& row) {
  std::vector<std::string> out{std::string(row.name)};
  out.insert(out.end(), row.aliases.begin(), row.aliases.end());
  return out;
}

bool takes_directory(const OptionInfo& row) {
  return row.option == Option::wdir || row.option == Option::output_filename;
}

// Words to offer as values, without the placeholders of ppr:N:host.
std::string choices(const OptionInfo& row) {
  std::string out;
  for (const auto choice : row.choices) {
    if (choice.find(':') == std::string_view::npos) out += (out.empty() ? "" : " ") + std::string(choice);
  }
  return out;
}

std::string bash() {
  std::string flags, with_value, with_two, cases;
  for (const auto& row : options()) {
    if (row.hidden) continue;
    const auto names = spellings(row);
    flags += fmt::format(" {}", fmt::join(names, " "));
    if (!row.takes_value()) continue;
    auto& list = row.takes_two_words() ? with_two : with_value;
    list += fmt::format("{}{}", list.empty() ? "" : "|", fmt::join(names, "|"));
    std::string reply;
    if (!choices(row).empty()) {
      reply = fmt::format("compgen -W '{}' -- \"$cur\"", choices(row));
    } else if (row.type == Type::path) {
      reply = takes_directory(row) ? "compgen -d -- \"$cur\"" : "compgen -f -- \"$cur\"";
    } else if (row.type == Type::hosts) {
      reply = "compgen -A hostname -- \"$cur\"";
    } else if (row.type == Type::export_name) {
      reply = "compgen -e -- \"$cur\"";
    }
    if (!reply.empty()) {
      cases += fmt::format("    {}) mapfile -t COMPREPLY < <({}); return ;;\n", fmt::join(names, "|"), reply);
    }
  }
  return fmt::format(R"(# bash completion for trainrun
_trainrun() {{
  # bash cuts words at : and =, which are inside of ours (a:2, --np=4), so the line is cut again
  local words=() word cur= prev= at=1 left=0
  read -ra words <<<"${{COMP_LINE:0:COMP_POINT}}"
  if [[ ${{COMP_LINE:0:COMP_POINT}} != *[[:space:]] ]]; then cur=${{words[-1]}}; unset 'words[-1]'; fi
  COMPREPLY=()
  # whether the program has begun, which is the first word that is neither a flag nor the value of one
  for word in "${{words[@]:1}}"; do
    if [[ $word == : ]]; then
      at=1 prev= left=0
    elif ((at == 0)); then
      continue
    elif ((left > 0)); then
      left=$((left - 1))
      ((left > 0)) || prev=
    else
      case $word in
        {}) prev=$word left=1 ;;
        {}) prev=$word left=2 ;;
        --) at=0 ;;
        -*) ;;
        *) at=0 ;;
      esac
    fi
  done
  if ((at == 0)); then
    if [[ ${{words[1]}} == completion ]]; then
      mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- "$cur")
    elif [[ ${{words[1]}} == ctl ]]; then
      mapfile -t COMPREPLY < <(compgen -W '{}' -- "$cur")
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
    return
  fi
  case $prev in
{}    ?*) return ;;
  esac
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{}' -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -A command -A file -- "$cur")
    if ((${{#words[@]}} == 1)); then COMPREPLY+=($(compgen -W '{}' -- "$cur")); fi
  fi
}}
complete -o filenames -F _trainrun trainrun
)",
                     with_value, with_two, of_ctl, cases, flags.substr(1), fmt::join(commands, " "));
}

// In single quotes, for zsh and fish.
std::string in_quotes(std::string_view text, bool zsh) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += zsh ? "'\\''" : "\\'";
    } else if (zsh && (c == '[' || c == ']' || c == ':')) {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string zsh() {
  std::string lines;
  for (const auto& row : options()) {
    if (row.hidden) continue;
    std::string action;
    if (row.takes_value()) {
      std::string what = " ";
      if (!choices(row).empty()) {
        what = fmt::format("({})", choices(row));
      } else if (row.type == Type::path) {
        what = takes_directory(row) ? "_files -/" : "_files";
      } else if (row.type == Type::hosts) {
        what = "_hosts";
      } else if (row.type == Type::export_name) {
        what = "_parameters -g \"*export*\"";
      }
      for (const auto word : split(row.value_name, row.takes_two_words() ? ' ' : '\0')) {
        action += fmt::format(":{}:{}", in_quotes(word, true), what);
      }
    }
    for (const auto& name : spellings(row)) {
      lines += fmt::format("    '*{}[{}]{}' \\\n", name, in_quotes(row.help, true), action);
    }
  }
  return fmt::format(
      "#compdef trainrun\n"
      "# zsh completion for trainrun\n"
      "_trainrun() {{\n"
      "  if (( CURRENT == 3 )) && [[ $words[2] == completion ]]; then compadd bash zsh fish; return; fi\n"
      "  if (( CURRENT > 2 )) && [[ $words[2] == ctl ]]; then compadd -- {}; return; fi\n"
      "  _arguments -S \\\n{}    '(-)1:program:_command_names -e' \\\n    '*::arguments:_normal'\n"
      "}}\n"
      "if [[ $funcstack[1] == _trainrun ]]; then _trainrun \"$@\"; else compdef _trainrun trainrun; fi\n",
      of_ctl, lines);
}

std::string fish() {
  std::string lines;
  for (const auto& row : options()) {
    if (row.hidden) continue;
    std::string names;
    for (const auto& name : spellings(row)) {
      if (name.starts_with("--")) {
        names += fmt::format(" -l {}", name.substr(2));
      } else {
        names +=
            name.size() == 2 ? fmt::format(" -s {}", name.substr(1)) : fmt::format(" -o {}", name.substr(1));
      }
    }
    std::string value;
    if (row.takes_value()) {
      if (!choices(row).empty()) {
        value = fmt::format(" -x -a '{}'", choices(row));
      } else if (row.type == Type::path) {
        value = takes_directory(row) ? " -x -a '(__fish_complete_directories)'" : " -r";
      } else if (row.type == Type::hosts) {
        value = " -x -a '(__fish_print_hostnames)'";
      } else if (row.type == Type::export_name) {
        value = " -x -a '(set -nx)'";
      } else {
        value = " -x";
      }
    }
    lines += fmt::format("complete -c trainrun{}{} -d '{}'\n", names, value, in_quotes(row.help, false));
  }
  return fmt::format(
      "# fish completion for trainrun\n{}"
      "complete -c trainrun -n '__fish_is_first_token' -a '{}'\n"
      "complete -c trainrun -n '__fish_seen_subcommand_from completion' -x -a 'bash zsh fish'\n"
      "complete -c trainrun -n '__fish_seen_subcommand_from ctl' -x -a '{}'\n",
      lines, fmt::join(commands, " "), of_ctl);
}

}  // namespace

Result<std::string> completion(std::string_view shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  return fail(Code::usage,
              shell.empty() ? "completion needs one word: the shell"
                            : fmt::format("there is no completion for {}", quoted(shell)),
              "write trainrun completion bash, zsh or fish");
}

}  // namespace trainrun::cli
