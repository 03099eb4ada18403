// A pretended machine for the tests of the command line: a few files, a PATH, some cores.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/config.h"
#include "launcher/base/exit_code.h"

using Words = std::vector<std::string>;

struct World {
  std::map<std::string, std::string> files = {{"/home/u/hosts.txt", "gpu1 slots=2\ngpu2 slots=2\n"},
                                              {"/home/u/train.py", ""},
                                              {"/home/u/plain.txt", ""},
                                              {"/home/u/k", ""},
                                              {"/home/u/.ssh/id", ""}};
  std::set<std::string> executables = {"/home/u/train",    "/home/u/server", "/home/u/client",
                                       "/home/u/run.py",   "/bin/true",      "/bin/cat",
                                       "/usr/bin/python3", "/usr/bin/env"};
  std::set<std::string> directories = {"/home/u", "/home/u/sub", "/tmp", "/"};
  std::map<std::string, std::string> links;  // that lead nowhere, unless to another of these
  std::vector<trainrun::EnvVar> environment = {{"PATH", "/usr/bin:/bin"}, {"HOME", "/home/u"}};
  trainrun::cli::LocalFacts facts{.cores = 4, .gpus = 0};
  int facts_asked = 0;
  std::string called_as = "trainrun";
  trainrun::cli::ProgramMpi mpi{};  // of any program
  std::vector<trainrun::wire::CpuFact> cpus{};

  trainrun::Result<trainrun::cli::Request> read(std::vector<std::string> argv) {
    trainrun::cli::Inputs in;
    in.argv = std::move(argv);
    in.called_as = called_as;
    in.mpi_of = [this](const Words&, const std::string&) { return mpi; };
    in.uses_horovod = [this](const Words&, const std::string&) { return mpi.horovod; };
    in.environment = environment;
    in.directory = "/home/u";
    in.job_id = "0123456789abcdef";
    in.read_file = [this](const std::string& path) -> trainrun::Result<std::string> {
      const auto found = files.find(path);
      if (found == files.end())
        return trainrun::fail(trainrun::Code::config, path + ": No such file or directory");
      return found->second;
    };
    in.local_facts = [this] { return ++facts_asked, facts; };
    in.local_cpus = [this] { return cpus; };
    in.is_this_machine = [this](const trainrun::Host& host) {
      const auto user = [this] {
        for (const auto& [name, value] : environment)
          if (name == "USER") return value;
        return std::string();
      };
      return trainrun::hosts::ThisMachine({.host_name = "here", .user = user}).is(host);
    };
    in.is_executable = [this](const std::string& path) { return executables.contains(path); };
    in.is_file = [this](const std::string& path) {
      return executables.contains(path) || files.contains(path);
    };
    in.first_line = [this](const std::string& path) {
      const auto found = files.find(path);
      if (found == files.end() && executables.contains(path))
        return std::string(
            "\x7f"
            "ELF");
      return found == files.end() ? std::string() : found->second.substr(0, found->second.find('\n'));
    };
    in.is_directory = [this](const std::string& path) { return directories.contains(path); };
    in.link_target = [this](const std::string& path) {
      const auto found = links.find(path);
      return found == links.end() ? std::string() : found->second;
    };
    return trainrun::cli::read_request(in);
  }
};

inline trainrun::JobSpec job_of(World& world, Words words) {
  const auto request = world.read(std::move(words));
  if (!request) MESSAGE(request.error().message);
  REQUIRE(request.has_value());
  return request->job;
}

inline trainrun::JobSpec job_of(Words words) {
  World world;
  return job_of(world, std::move(words));
}

inline std::string error_of(World& world, Words words) {
  const auto request = world.read(std::move(words));
  if (request) return "no error";
  CHECK(trainrun::exit_code_of(request.error().code) == trainrun::ExitCode::usage);
  return request.error().message + (request.error().hint.empty() ? "" : " | " + request.error().hint);
}

inline std::string error_of(Words words) {
  World world;
  return error_of(world, std::move(words));
}

inline std::string shown(const trainrun::JobSpec& job) {
  std::string out;
  for (const auto& host : job.hosts.hosts) out += host.name + ":" + std::to_string(host.slots) + " ";
  return out + "np " + std::to_string(job.world_size());
}

// The job's variables of Horovod and NCCL: "CYCLE_TIME=2.5".
inline std::set<std::string> tuned(World world, Words words) {
  words.push_back("./train");
  std::set<std::string> set;
  const auto job = job_of(world, std::move(words));
  const auto add = [&](const std::vector<trainrun::EnvVar>& env) {
    for (const auto& [name, value] : env) {
      if (name.starts_with("HOROVOD_")) set.insert(name.substr(8) + "=" + value);
      if (name.starts_with("NCCL_")) set.insert(name + "=" + value);
    }
  };
  add(job.env);
  add(job.programs.front().env);
  return set;
}

// Started by that name, as by a link.
inline World called(const std::string& name, std::vector<trainrun::EnvVar> variables = {}) {
  World world;
  world.called_as = name;
  for (auto& one : variables) world.environment.push_back(std::move(one));
  return world;
}
