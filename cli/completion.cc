#include "cli/completion.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/options.h"
#include "cli/subcommands.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

// A line of a shell's script for each subcommand, from a format of its name, the words after it, and what is
// to be there if files may come there too, or else.
std::string for_each_subcommand(std::string_view format, std::string_view with_files = {},
                                std::string_view without = {}) {
  std::string out;
  for (const auto& [name, words, files] : subcommands())
    out += fmt::format(fmt::runtime(format), name, fmt::join(words, " "), files ? with_files : without);
  return out;
}

std::vector<std::string> spellings(const OptionInfo& row) {
  std::vector<std::string> out{std::string(row.name)};
  out.insert(out.end(), row.aliases.begin(), row.aliases.end());
  return out;
}

bool takes_directory(const OptionInfo& row) {
  return row.option == Option::wdir || row.option == Option::output_filename;
}

// Words to offer as values, and the beginnings of values that go on: of ppr:N:host that is ppr:
struct Words {
  std::string whole, beginnings;
};
Words choices(const OptionInfo& row) {
  Words out;
  for (const auto choice : row.choices) {
    const auto colon = choice.find(':');
    auto& list = colon == std::string_view::npos ? out.whole : out.beginnings;
    list += (list.empty() ? "" : " ") +
            std::string(choice.substr(0, colon == std::string_view::npos ? colon : colon + 1));
  }
  return out;
}

std::string in_bash(const OptionInfo& row) {
  const auto [whole, beginnings] = choices(row);
  const auto reply = [](std::string_view what) {
    return fmt::format("mapfile -t COMPREPLY < <(compgen {} -- \"$cur\")", what);
  };
  if (!beginnings.empty()) {  // no blank after them, and no quote before the colon
    return fmt::format("{}; [[ ${{COMPREPLY[*]}} != *: ]] || compopt -o nospace +o filenames 2>/dev/null",
                       reply(fmt::format("-W '{} {}'", whole, beginnings)));
  }
  if (!whole.empty()) return reply(fmt::format("-W '{}'", whole));
  if (row.type == Type::path || row.type == Type::sink) return reply(takes_directory(row) ? "-d" : "-f");
  if (row.type == Type::hosts) return reply("-A hostname");
  return row.type == Type::export_name ? reply("-e") : "";
}

// The patterns of `case` that the parser of all words needs, in bash and in fish: what takes no value is in
// none of them.
struct Patterns {
  std::vector<std::string> topic, one_word, two_words;
};
Patterns patterns() {
  Patterns out;
  for (const auto& row : options()) {
    if (row.hidden || (!row.takes_value() && row.type != Type::topic)) continue;
    auto& list = row.type == Type::topic ? out.topic : row.takes_two_words() ? out.two_words : out.one_word;
    for (auto& name : spellings(row)) list.push_back(std::move(name));
  }
  return out;
}

std::string bash() {
  std::string flags, cases;
  for (const auto& row : options()) {
    if (row.hidden) continue;
    const auto names = spellings(row);
    flags += fmt::format(" {}", fmt::join(names, " "));
    if (const auto reply = in_bash(row); !reply.empty())
      cases += fmt::format("    {}) {} ;;\n", fmt::join(names, "|"), reply);
  }
  const auto known = patterns();
  return fmt::format(
      R"(# bash completion for trainrun
# the ids of the jobs that can be asked
_trainrun_jobs() {{
  local id ids=
  while read -r id _; do [[ $id != +([0-9a-f]) ]] || ids+=" $id"; done < <("$1" ctl list 2>/dev/null)
  mapfile -t COMPREPLY < <(compgen -W "$ids" -- "$cur")
}}
_trainrun() {{
  # bash cuts words at : and =, which are inside of ours (a:2, --np=4), so the line is cut again
  local words=() word cur= prev= before= at=1 left=0
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
        {}) prev=$word ;;
        --) at=0 ;;
        -*) prev= ;;
        *) at=0 ;;
      esac
    fi
  done
  if ((at == 0)); then
    case ${{words[1]}} in
      ctl) [[ ${{words[-1]}} != --job ]] || {{ _trainrun_jobs "${{words[0]}}"; return; }} ;;&
{}      *) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    esac
    return
  fi
  if [[ -z $prev && $cur == -*=* ]]; then
    prev=${{cur%%=*}} cur=${{cur#*=}}
    [[ $COMP_WORDBREAKS == *=* ]] || before=$prev=  # else bash itself keeps what is before the =
  fi
  case $prev in
{}  esac
  if [[ -n $prev ]]; then
    COMPREPLY=("${{COMPREPLY[@]/#/$before}}")
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{}' -- "$cur")
  else
    # a program may be in PATH twice, and here as well
    local -A seen=()
    while read -r word; do
      [[ -z $word || -n ${{seen[$word]-}} ]] || COMPREPLY+=("$word")
      [[ -z $word ]] || seen[$word]=1
    done < <(((${{#words[@]}} > 1)) || compgen -W '{}' -- "$cur"; compgen -A command -A file -- "$cur")
  fi
}}
complete -o filenames -F _trainrun trainrun
)",
      fmt::join(known.one_word, "|"), fmt::join(known.two_words, "|"), fmt::join(known.topic, "|"),
      for_each_subcommand("      {0}) mapfile -t COMPREPLY < <(compgen {2}-W '{1}' -- \"$cur\") ;;\n", "-f "),
      cases, flags.substr(1), for_each_subcommand("{} "));
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

std::string in_zsh(const OptionInfo& row) {
  const auto [whole, beginnings] = choices(row);
  if (!beginnings.empty())
    return fmt::format("{{compadd {}; compadd -S \"\" {}}}", whole, in_quotes(beginnings, true));
  if (!whole.empty()) return fmt::format("({})", whole);
  if (row.type == Type::path || row.type == Type::sink) return takes_directory(row) ? "_files -/" : "_files";
  if (row.type == Type::hosts) return "_hosts";
  return row.type == Type::export_name ? "_parameters -g \"*export*\"" : " ";
}

std::string zsh() {
  std::string lines;
  for (const auto& row : options()) {
    if (row.hidden) continue;
    std::string values;
    if (row.type == Type::topic) values = fmt::format("::topic:{}", in_zsh(row));  // it may be left out
    if (row.takes_value()) {
      for (const auto word : split(row.value_name, row.takes_two_words() ? ' ' : '\0'))
        values += fmt::format(":{}:{}", in_quotes(word, true), in_zsh(row));
    }
    const bool equals = row.takes_value() && !row.takes_two_words();  // then --np=4 is fine as well
    for (const auto& name : spellings(row)) {
      lines +=
          fmt::format("    '*{}{}[{}]{}' \\\n", name, equals ? "=" : "", in_quotes(row.help, true), values);
    }
  }
  return fmt::format(
      "#compdef trainrun\n"
      "# zsh completion for trainrun\n"
      "_trainrun_program() {{\n"
      "  (( CURRENT > 2 )) || compadd {}\n"
      "  _command_names -e\n"
      "  _files\n"
      "}}\n"
      "_trainrun() {{\n"
      "  if (( CURRENT > 2 )); then\n"
      "    if [[ $words[2] == ctl && $words[CURRENT-1] == --job ]]; then\n"
      "      compadd -- ${{${{(M)${{(f)\"$($words[1] ctl list 2>/dev/null)\"}}:#[0-9a-f][0-9a-f]*}}%% *}}; "
      "return\n"
      "    fi\n"
      "    case $words[2] in\n"
      "{}"
      "    esac\n"
      "  fi\n"
      "  _arguments -S \\\n{}    '(-)1:program:_trainrun_program' \\\n    '*::arguments:_normal'\n"
      "}}\n"
      "if [[ $funcstack[1] == _trainrun ]]; then _trainrun \"$@\"; else compdef _trainrun trainrun; fi\n",
      for_each_subcommand("{} "),
      for_each_subcommand("      {0}) compadd -- {1}; {2}return ;;\n", "_files; "), lines);
}

std::string in_fish(const OptionInfo& row) {
  if (!row.takes_value()) return "";
  const auto [whole, beginnings] = choices(row);
  if (!whole.empty() || !beginnings.empty()) return fmt::format(" -x -a '{} {}'", whole, beginnings);
  if (row.type == Type::path || row.type == Type::sink)
    return takes_directory(row) ? " -x -a '(__fish_complete_directories)'" : " -r";
  if (row.type == Type::hosts) return " -x -a '(__fish_print_hostnames)'";
  return row.type == Type::export_name ? " -x -a '(set -nx)'" : " -x";
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
    lines += fmt::format("complete -c trainrun -n __trainrun_before_program{}{} -d '{}'\n", names,
                         in_fish(row), in_quotes(row.help, false));
  }
  const auto known = patterns();
  return fmt::format(
      R"(# fish completion for trainrun
# Whether the program is still to come: the first word that is neither a flag nor the value of one.
function __trainrun_before_program
    set -l words (commandline -opc)
    set -e words[1]
    set -l before 1
    set -l left 0
    for word in $words
        if test "$word" = :
            set before 1
            set left 0
        else if test $before -eq 0
            continue
        else if test $left -gt 0
            set left (math $left - 1)
        else
            switch $word
                case {}
                    set left 1
                case {}
                    set left 2
                case --
                    set before 0
                case '-*'
                case '*'
                    set before 0
            end
        end
    end
    test $before -eq 1
end
{}complete -c trainrun -n '__fish_prev_arg_in {}' -x -a all
complete -c trainrun -n __fish_is_first_token -a '{}'
complete -c trainrun -n 'string match -q ctl -- (commandline -opc)[2]; and __fish_prev_arg_in --job' -x \
    -a '(trainrun ctl list 2>/dev/null | string match -r "^[0-9a-f]{{16}}")'
{})",
      fmt::join(known.one_word, " "), fmt::join(known.two_words, " "), lines, fmt::join(known.topic, " "),
      for_each_subcommand("{} "),
      for_each_subcommand("complete -c trainrun -n 'string match -q {0} -- (commandline -opc)[2]; and not "
                          "__fish_prev_arg_in --job' "
                          "{2} -a '{1}'\n",
                          "-F", "-x"));
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
