// Wiring only: the words of the command line go in, an exit code comes out.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/comm_info.h"
#include "cli/config.h"
#include "cli/ctl.h"
#include "cli/decide_here.h"
#include "cli/dry_run.h"
#include "cli/elastic.h"
#include "cli/host_choice.h"
#include "cli/local_machine.h"
#include "cli/login.h"
#include "cli/rendezvous_words.h"
#include "cli/replay.h"
#include "cli/singleton.h"
#include "cli/subcommands.h"
#include "launcher/agent/agent_main.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/fault.h"
#include "launcher/base/open_files.h"
#include "launcher/base/standard_streams.h"
#include "launcher/base/strings.h"
#include "launcher/control/protocol.h"
#include "launcher/core/placement.h"
#include "launcher/output/host_check.h"
#include "launcher/output/our_lines.h"
#include "launcher/run.h"
#include "launcher/transport/factory.h"
#include "rendezvous/standalone.h"

namespace {

using namespace trainrun;
using namespace trainrun::cli;
using output::print_error;

int print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return 0;
  print_error({Code::internal, "stdout cannot be written to: " + errno_text(errno)});
  return to_int(ExitCode::output_lost);
}

// A program that asked for JSON, whose schema this is, reads JSON, also when the words are wrong.
int refuse(const Error& error, std::optional<int> schema) {
  if (!schema) return print_error(error);
  const int printed = print(control::error_reply(error, schema) + "\n");
  return printed != 0 ? printed : to_int(exit_code_of(error.code));
}

// Asked of words that could not be read; no matter that the program may have such flags of its own.
std::optional<int> json_wanted(const std::vector<std::string>& argv) {
  const auto has = [&](std::string_view word) {
    return std::find(argv.begin(), argv.end(), word) != argv.end();
  };
  if (!has("--json")) return std::nullopt;
  return has("--check-hosts") ? std::optional(output::host_checks_schema)
         : has("--dry-run")   ? std::optional(dry_run_schema)
                              : std::nullopt;
}

std::optional<int> json_wanted(const Request& request) {
  if (!request.json || request.action == Action::run) return std::nullopt;
  return request.action == Action::check_hosts ? output::host_checks_schema : dry_run_schema;
}

bool needs_no_login(const JobSpec& job, const Host& host, const Inputs& inputs) {
  return job.transport == TransportKind::local ||
         (job.transport == TransportKind::automatic && inputs.is_this_machine(host));
}

// What a start would do to get an agent running on `host`; empty when it needs no login.
std::string remote_command(const JobSpec& job, const Host& host, const Inputs& inputs) {
  if (needs_no_login(job, host, inputs)) return {};
  return transport::remote_command_for_display(host, job.ssh, job.transport);
}

int dry_run(const Request& request, const Inputs& inputs) {
  const JobSpec& job = request.job;
  core::Placement first{Generation{1}, {}, 0};  // empty: the hosts are not known before the start
  if (!job.hosts.hosts.empty()) {
    auto placed = first_world(job);
    if (!placed) return refuse(placed.error(), json_wanted(request));
    first = std::move(*placed);
  }
  const auto here = [&](const Host& host) { return needs_no_login(job, host, inputs); };
  if (const auto good = decide_here(job, first, here); !good)
    return refuse(good.error(), json_wanted(request));
  const RemoteCommand command = [&](const Host& host) { return remote_command(job, host, inputs); };
  ProgramsMpi mpi;
  for (const auto& program : job.programs) mpi.push_back(inputs.mpi_of(program.argv, program.directory));
  return print(request.json ? dry_run_json(job, first, command, mpi)
                            : dry_run_text(job, first, command, mpi));
}

int ctl(const std::vector<std::string>& words, const Inputs& inputs) {
  const auto answer = ctl_answer(words, ctl_places(inputs.environment));
  if (!answer) return print_error(answer.error());
  for (const auto& line : answer->complaint) output::print_line(stderr, line);
  const int printed = print(answer->text);
  return printed != 0 ? printed : static_cast<int>(answer->code);
}

int rendezvous(const std::vector<std::string>& words) {
  const auto options = parse_rendezvous(words);
  if (!options) return print_error(options.error());
  return *options ? rendezvous::rendezvous_main(**options) : print(rendezvous_help());
}

int comm_info(const std::vector<std::string>& words, const Inputs& inputs) {
  const auto text = cli::comm_info(words, inputs);
  return text ? print(*text) : print_error(text.error());
}

int become(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv.front(), argv.data());
  const int error = errno;
  return print_error({error == ENOENT ? Code::not_found : Code::not_executable,
                      fmt::format("{}: {}", quoted(words.front()), errno_text(error)),
                      "name the program, as in horovodrun --check-build python"});
}

Surroundings surroundings(const Inputs& inputs) {
  Surroundings around;
  for (const auto& [name, value] : inputs.environment) around.environment.push_back(name + "=" + value);
  around.control_directories = ctl_places(inputs.environment);
  return around;
}

void print_notes(const Request& request) {
  if (request.job.quiet) return;
  for (const auto& note : request.notes) output::print_line(stderr, "trainrun: " + note);
}

bool starts_agents(Action action) {
  return action == Action::run || action == Action::dry_run || action == Action::check_hosts;
}

int perform(const Request& request, const Inputs& inputs) {
  if (starts_agents(request.action)) {
    const auto here = [&](const Host& host) { return needs_no_login(request.job, host, inputs); };
    const auto json = json_wanted(request);
    if (const auto good = keys_are_usable(request.job, here); !good) return refuse(good.error(), json);
    if (request.action != Action::dry_run) {
      if (const auto known = user_is_known(request.job, here); !known) return refuse(known.error(), json);
    }
  }
  switch (request.action) {
    case Action::run:
      return run_job(request.job, request.notes, surroundings(inputs));
    case Action::dry_run:
      print_notes(request);
      return dry_run(request, inputs);
    case Action::check_hosts:
      print_notes(request);
      return check_hosts(request.job, request.json);
    case Action::print_config:
    case Action::help:
    case Action::version:
    case Action::completion:
      return print(request.text);
    case Action::rendezvous:
      return rendezvous(request.rest);
    case Action::ctl:
      return ctl(request.rest, inputs);
    case Action::replay:
      return replay_main(request.rest);
    case Action::comm_info:
      return ::comm_info(request.rest, inputs);
    case Action::check_build:
      return become(request.rest);
    case Action::agent:
      return agent::agent_main(request.rest);
  }
  return to_int(ExitCode::internal);
}

}  // namespace

int main(int argc, char** argv) {
  open_closed_standard_streams();
  raise_open_files();
  const auto inputs = inputs_of_this_process(argc, argv, environ);
  if (!inputs) return print_error(inputs.error());
  for (const auto& [name, value] : inputs->environment) {
    if (name == "TRAINRUN_FAULT") fault::configure(value);
  }
  release_singleton(inputs->argv);
  const auto request = read_request(*inputs);
  if (!request) return refuse(request.error(), json_wanted(inputs->argv));
  return perform(*request, *inputs);
}
