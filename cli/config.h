// From the words of the command line, the environment and a file to a Request. Pure: whatever it needs to
// know of this machine is handed in.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "host-discovery/this_machine.h"
#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"
#include "launcher/wire/facts.h"

namespace trainrun::cli {

struct LocalFacts {
  std::uint32_t cores = 1;  // physical cores that may be used: affinity mask and cgroup quota counted
  std::uint32_t gpus = 0;
};

struct ProgramMpi {
  wire::MpiFamily family = wire::MpiFamily::none;
  bool guessed = false;
  std::string library{};     // of Open MPI's programs; empty: there is none
  bool here = true;          // its file is
  bool horovod = false;      // it imports Horovod
  bool interpreter = false;  // what it runs may load an MPI
};

struct Inputs {
  std::vector<std::string> argv;       // without argv[0]
  std::string called_as = "trainrun";  // the last part of argv[0]
  std::vector<EnvVar> environment;
  std::string directory;  // the caller's, absolute
  std::function<Result<std::string>(const std::string& path)> read_file;
  std::function<LocalFacts()> local_facts;  // called only when needed
  // With all that is known of them. May be empty.
  std::function<std::vector<wire::CpuFact>()> local_cpus{};
  // Whose MPI a program's files say it is, and which libpmix would serve it. May be empty.
  std::function<ProgramMpi(const std::vector<std::string>& words, const std::string& directory)> mpi_of{};
  // Whether it imports Horovod, without the look at its MPI. May be empty.
  std::function<bool(const std::vector<std::string>& words, const std::string& directory)> uses_horovod{};
  hosts::IsThisMachine is_this_machine;
  std::function<bool(const std::string&path)> is_executable, is_file, is_directory;
  // Why what stands there is no program: it may not be looked at, or is a device. Empty: nothing is there, or
  // a file.
  std::function<std::string(const std::string& path)> why_no_program;
  std::function<std::string(const std::string& path)>
      first_line;  // of a script, 255 bytes at most; or nothing
  // Of a symbolic link the path that it leads to; empty: it is none. May be empty itself.
  std::function<std::string(const std::string& path)> link_target{};
  std::string job_id;
  std::string hostname = "localhost";  // what a job without hosts calls this host
};

enum class Action : std::uint8_t {
  run,
  dry_run,
  check_hosts,
  print_config,
  help,
  version,
  check_build,
  completion,
  rendezvous,
  ctl,
  replay,
  comm_info,
  agent,
};

struct Request {
  Action action = Action::run;
  bool json = false;
  JobSpec job;  // of run, dry_run, check_hosts; with check_hosts programs[0].argv may be empty
  std::vector<std::string> notes;  // lines for people that do not stop anything
  std::string text;                // of help, version, print_config, completion: what to print on stdout
  std::vector<std::string>
      rest;  // of agent, comm-info, ctl, replay and rendezvous: the words after it; of check_build: a command
};

// An Error's code is usage or config (exit 2), or not_found / not_executable for a program that this host
// would have to run and has not.
Result<Request> read_request(const Inputs& inputs);

}  // namespace trainrun::cli
