#include "cli/subcommands.h"

#include <fmt/format.h>

#include <limits>

#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

constexpr std::string_view usage_of_rendezvous =
    "trainrun rendezvous --np N [--bind ADDR:PORT] [--key-file FILE] [--timeout TIME]";
constexpr std::string_view usage_of_replay = "trainrun replay [--quiet] FILE...";
constexpr std::string_view usage_of_comm_info = "trainrun comm-info [--json]";
constexpr std::string_view usage_of_completion = "trainrun completion bash|zsh|fish";

std::string nearest_or(const CommandLine& line, std::string_view word, std::string_view otherwise) {
  const auto near = nearest_flag(line, word.substr(0, word.find('=')));
  return near ? fmt::format("did you mean {}?", *near) : std::string(otherwise);
}

Error unknown_of_ctl(std::string_view word) {
  return {Code::usage, fmt::format("trainrun ctl has no flag {}", quoted(word)),
          nearest_or(ctl_line(), word, "trainrun ctl --help")};
}

Error unknown_of_rendezvous(std::string_view word) {
  return {Code::usage, fmt::format("rendezvous: unknown flag {}", quoted(word.substr(0, word.find('=')))),
          nearest_or(rendezvous_line(), word, usage_of_rendezvous)};
}

Error unknown_of_replay(std::string_view word) {
  return {Code::usage, fmt::format("trainrun replay has no flag {}", quoted(word)),
          nearest_or(replay_line(), word, usage_of_replay)};
}

Error unknown_of_comm_info(std::string_view word) {
  return {Code::usage, fmt::format("trainrun comm-info has no flag {}", quoted(word)),
          nearest_or(comm_info_line(), word, usage_of_comm_info)};
}

Error unknown_of_completion(std::string_view word) {
  return {Code::usage, fmt::format("trainrun completion has no flag {}", quoted(word)),
          std::string(usage_of_completion)};
}

std::vector<std::string> words_of(const CommandLine& line) {
  std::vector<std::string> out;
  for (const auto& flag : line.flags) out.emplace_back(flag.name);
  return out;
}

std::vector<Subcommand> all() {
  std::vector<std::string> ctl;
  for (const auto& verb : ctl_verbs()) ctl.emplace_back(verb.name);
  for (auto& flag : words_of(ctl_line())) ctl.push_back(std::move(flag));
  return {{"completion", {"bash", "zsh", "fish"}},
          {"comm-info", words_of(comm_info_line())},
          {"ctl", std::move(ctl)},
          {"rendezvous", words_of(rendezvous_line())},
          {"replay", words_of(replay_line()), true}};
}

}  // namespace

std::span<const Verb> ctl_verbs() {
  static constexpr Verb verbs[] = {
      {"world", "", "who is where: generation, phase, ranks, hosts"},
      {"add", "HOST[:SLOTS]", "a host more, written as for -H"},
      {"remove", "HOST", "its workers are told, then the job goes on without it"},
      {"restart", "[RANK]", "a new generation of all workers, or one worker"},
      {"stop", "RANK", "one worker, and give its slot up"},
      {"end", "", "the job, as SIGTERM to the launcher would"},
      {"list", "", "the jobs that can be asked"},
  };
  return verbs;
}

const CommandLine& ctl_line() {
  static const CommandLine line{.prefix = "",
                                .flags = {{.name = "--job",
                                           .takes = Takes::a_value,
                                           .value_name = "ID",
                                           .help = "the job's id or how it begins, or its launcher's pid",
                                           .lookup = "trainrun ctl list"},
                                          {.name = "--json", .help = "the launcher's answer as it is"},
                                          {.name = "--force", .help = "remove and stop: even below --min-np"},
                                          {.name = "--help", .aliases = {"-h"}, .help = "this text"}},
                                .words = 2,
                                .unknown = unknown_of_ctl,
                                .usage = "trainrun ctl --help"};
  return line;
}

const CommandLine& rendezvous_line() {
  static const CommandLine line{
      .prefix = "rendezvous: ",
      .flags = {{.name = "--np",
                 .aliases = {"-np", "-n"},
                 .takes = Takes::a_value,
                 .value_name = "N",
                 .help = "members"},
                {.name = "--bind",
                 .takes = Takes::a_value,
                 .value_name = "ADDR:PORT",
                 .help = "where to listen: a numeric address, port 0 for a free one\n(default: 127.0.0.1:0)"},
                {.name = "--key-file",
                 .takes = Takes::a_value,
                 .value_name = "FILE",
                 .help = "the job's key; made, and removed at the end, if there is no such\n"
                         "file (default: one in a directory of our own)"},
                {.name = "--timeout",
                 .takes = Takes::a_value,
                 .value_name = "TIME",
                 .help = "end after this time, with 124 (default: none)"},
                {.name = "--help", .aliases = {"-h"}, .help = "this text"}},
      .unknown = unknown_of_rendezvous,
      .usage = usage_of_rendezvous};
  return line;
}

const CommandLine& replay_line() {
  static const CommandLine line{.prefix = "replay: ",
                                .flags = {{.name = "--quiet", .aliases = {"-q"}, .help = "only what differs"},
                                          {.name = "--help", .aliases = {"-h"}, .help = "this text"}},
                                .words = std::numeric_limits<std::size_t>::max(),
                                .unknown = unknown_of_replay,
                                .usage = usage_of_replay};
  return line;
}

const CommandLine& comm_info_line() {
  static const CommandLine line{.prefix = "comm-info: ",
                                .flags = {{.name = "--json", .help = "for programs"},
                                          {.name = "--help", .aliases = {"-h"}, .help = "this text"}},
                                .unknown = unknown_of_comm_info,
                                .usage = usage_of_comm_info};
  return line;
}

const CommandLine& completion_line() {
  static const CommandLine line{.prefix = "completion: ",
                                .flags = {{.name = "--help", .aliases = {"-h"}, .help = "this text"}},
                                .words = 1,
                                .unknown = unknown_of_completion,
                                .usage = usage_of_completion};
  return line;
}

const std::vector<Subcommand>& subcommands() {
  static const std::vector<Subcommand> table = all();
  return table;
}

std::string ctl_help() {
  std::string out =
      "usage: trainrun ctl [--job ID] [--json] COMMAND\n\n"
      "Shows or changes a job that runs on this host, by asking its trainrun.\n\n";
  for (const auto& verb : ctl_verbs())
    out += fmt::format("  {:<22}{}\n", fmt::format("{} {}", verb.name, verb.argument), verb.help);
  return out + "\n" + help_on_flags(ctl_line(), 24) + "\nman trainrun-ctl\n";
}

std::string rendezvous_help() {
  return fmt::format("usage: {}\n\n", usage_of_rendezvous) +
         "Serves N members that somebody else starts, such as programs on comm under a batch system.\n"
         "Prints TRAINRUN_RENDEZVOUS, TRAINRUN_KEY_FILE and TRAINRUN_SIZE for them on one line, and\n"
         "ends when they have left: with 0, or with 69 when one was lost.\n\n" +
         help_on_flags(rendezvous_line(), 20) +
         "\nOf a flag that is repeated the last one counts. More: man trainrun, \"A rendezvous alone\".\n";
}

std::string replay_help() {
  return fmt::format("usage: {}\n\n", usage_of_replay) +
         "Prints what happened to a job that was started with --journal FILE, and what its launcher\n"
         "decided: the decisions are made again. Ends with 0 when they are the same as then, and with\n"
         "65 when they are not, after the first that differs.\n\n" +
         help_on_flags(replay_line(), 14) + "\nman trainrun-replay\n";
}

std::string comm_info_help() {
  return fmt::format("usage: {}\n\n", usage_of_comm_info) +
         "Prints what programs on comm can use on this host: the backends of the library, cores and what\n"
         "their kernels use of the processor, shared memory, which NCCL is found where, and CUDA's driver\n"
         "and devices.\n\n" +
         help_on_flags(comm_info_line(), 14);
}

std::string completion_help() {
  return fmt::format("usage: {}\n\n", usage_of_completion) +
         "Prints what teaches the shell to complete command lines of trainrun, as in\n"
         "  . <(trainrun completion bash)\n\n" +
         help_on_flags(completion_line(), 14);
}

}  // namespace trainrun::cli
