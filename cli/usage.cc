#include "cli/usage.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/options.h"

namespace trainrun::cli {

namespace {

constexpr std::size_t columns = 80;
constexpr Group groups[] = {Group::ranks,   Group::placement, Group::program, Group::output, Group::time,
                            Group::elastic, Group::ssh,       Group::network, Group::actions};

constexpr std::string_view to_copy =
    "  trainrun -np 4 ./train                          # 4 ranks on this host\n"
    "  trainrun -np 16 -H gpu1:8,gpu2:8 ./train        # 0-7 on gpu1, 8-15 on gpu2\n"
    "  trainrun --hostfile hosts.txt python3 train.py  # a rank for every slot\n"
    "  trainrun -np 1 ./server : -np 7 ./client        # two programs, one world\n"
    "  trainrun --dry-run --hostfile hosts.txt ./train # check, start nothing\n"
    "  trainrun --config job.toml                      # settings from a file\n\n";

// "-np N", "--grace TIME": the spelling that people type.
std::string shortest(const OptionInfo& row) {
  std::string_view name = row.name;
  for (const auto alias : row.aliases) {
    if ((alias.size() == 2 && row.option != Option::hostfile) ||
        row.option == Option::np) {  // -f says too little
      name = alias;
      break;
    }
  }
  if (row.value_name.empty()) return std::string(name);
  return fmt::format("{} {}", name, row.value_name.substr(0, row.value_name.find("[:")));
}

// All spellings: "-np, -n, --np, --num-proc N".
std::string spellings(const OptionInfo& row) {
  std::vector<std::string_view> names = row.aliases;
  names.insert(std::find_if(names.begin(), names.end(), [](auto name) { return name.starts_with("--"); }),
               row.name);
  return fmt::format("{}{}{}", fmt::join(names, ", "), row.value_name.empty() ? "" : " ", row.value_name);
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t column) {
  std::string out;
  for (std::size_t from = 0; from < text.size();) {
    const auto end = std::min(text.find(' ', from), text.size());
    const auto word = text.substr(from, end - from);
    if (column + word.size() > columns) {
      while (out.ends_with(' ')) out.pop_back();
      out += fmt::format("\n{:{}}", "", indent);
      column = indent;
    }
    out += word;
    out += ' ';
    column += word.size() + 1;
    from = end + 1;
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

}  // namespace

std::string short_help() {
  std::string out = "usage: trainrun [flags] program [arguments]     trainrun --help all: every flag\n\n";
  out += to_copy;
  constexpr std::size_t indent = 17;
  for (const auto group : groups) {
    std::string line = fmt::format("{:<{}}", group_title(group), indent);
    std::size_t column = indent;
    for (const auto& row : options()) {
      if (row.group != group || !row.common || row.hidden) continue;
      const std::string word = shortest(row);
      if (column > indent && column + 2 + word.size() > columns) {
        line += fmt::format("\n{:{}}", "", indent);
        column = indent;
      }
      line += (column > indent ? "  " : "") + word;
      column += word.size() + (column > indent ? 2 : 0);
    }
    out += line + "\n";
  }
  return out;
}

std::string long_help() {
  std::string out =
      "usage: trainrun [flags] [--] program [arguments] [: [flags] program [arguments]]...\n"
      "       trainrun comm-info [--json]\n"
      "       trainrun completion bash|zsh|fish\n"
      "       trainrun ctl [flags] world|add|remove|restart|stop|end|list\n"
      "       trainrun rendezvous [flags]\n"
      "       trainrun replay [flags] FILE...\n\n";
  out += to_copy;
  for (const auto group : groups) {
    out += fmt::format("{}{}\n", group == groups[0] ? "" : "\n", group_title(group));
    for (const auto& row : options()) {
      if (row.group != group || row.hidden) continue;
      std::string text(row.help);
      if (!row.default_text.empty()) text += fmt::format(" (default: {})", row.default_text);
      const std::string head = "  " + spellings(row);
      constexpr std::size_t indent = 30;
      out += head.size() + 2 <= indent ? fmt::format("{:<{}}", head, indent)
                                       : fmt::format("{}\n{:{}}", head, "", indent);
      out += wrapped(text, indent, indent) + "\n";
    }
  }
  out +=
      "\nEvery flag can also be set as TRAINRUN_NAME (TRAINRUN_GRACE=5s) or in the file of --config;\n"
      "flags go before the environment, the environment before the file. One dash or two, `-` or\n"
      "`_`: all the same. The words after the program are the program's; `--` ends the flags.\n"
      "Exit codes, environment and what is left behind: man trainrun. Hosts: man trainrun-hosts.\n"
      "Jobs that outlive their ranks and hosts: man trainrun-elastic.\n";
  return out;
}

std::string help_as_torchrun(bool all) {
  return "This torchrun is trainrun. torchrun's options that work: man trainrun-pytorch\n\n" +
         (all ? long_help() : short_help());
}

std::string horovod_version_text() {
  return "0.28.1\n";  // alone: scripts compare it
}

std::string version_text(const std::string& called_as, bool open_mpi) {
  std::string text = "trainrun " TRAINRUN_VERSION "\n";
  if (!called_as.empty())
    text += "called as " + called_as.substr(0, 40) +
            (open_mpi ? ": starts programs of Open MPI as its mpirun does (PMIx), and those of MPICH and\n"
                        "Intel MPI (PMI-1)\n"
                      : ": starts programs of MPICH and Intel MPI as HYDRA does (PMI-1)\n");
  return text;
}

}  // namespace trainrun::cli
