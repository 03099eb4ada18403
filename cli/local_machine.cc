#include "cli/local_machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "cli/hide_values.h"
#include "cli/program.h"
#include "host-discovery/host_grammar.h"
#include "launcher/agent/horovod_program.h"
#include "launcher/agent/host_facts.h"
#include "launcher/agent/mpi_program.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "launcher/io/spawn.h"
#include "launcher/transport/own_names.h"

namespace trainrun::cli {

namespace {

constexpr std::size_t largest_file = 4 * 1024 * 1024;

bool is_kind(const std::string& path, mode_t kind) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) == kind;
}

// A batch system or user who hides GPUs means it; an empty list or -1 hides all.
std::uint32_t visible_gpus(std::uint32_t there, const std::vector<EnvVar>& environment) {
  for (const auto& [name, value] : environment) {
    if (name != "CUDA_VISIBLE_DEVICES") continue;
    if (value.empty() || value.front() == '-') return 0;
    return std::min(there, static_cast<std::uint32_t>(split(value, ',').size()));
  }
  return there;
}

LocalFacts local_facts(const std::vector<EnvVar>& environment) {
  const auto facts = agent::read_host_facts({});
  std::set<std::uint32_t> cores;
  for (const auto& cpu : facts.cpus) cores.insert(cpu.core);
  LocalFacts out{.cores = std::max<std::uint32_t>(static_cast<std::uint32_t>(cores.size()), 1), .gpus = 0};
  if (facts.quota_millicores > 0) {
    out.cores = std::min(out.cores, std::max<std::uint32_t>(facts.quota_millicores / 1000, 1));
  }
  out.gpus = visible_gpus(facts.gpus, environment);
  return out;
}

Result<std::string> fresh_job_id() {
  std::string bytes(8, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return fail(Code::internal, fmt::format("no random bytes for the job's id: {}", errno_text(errno)));
  }
  return hex(bytes);
}

}  // namespace

namespace {

// As much of a script as the kernel looks at. Opened only if it is a file: a pipe would wait for its writer.
std::string first_line(const std::string& path) {
  if (!is_kind(path, S_IFREG)) return {};
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char text[255];
  const auto size = file ? ::read(file.get(), text, sizeof text) : 0;
  const std::string_view read(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  return std::string(read.substr(0, read.find('\n')));
}

std::string path_of(const std::vector<EnvVar>& environment) {
  for (const auto& [name, value] : environment)
    if (name == "PATH") return value;
  return {};
}

std::string own_hostname() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || !hosts::check_name(name)) return "localhost";
  return name;
}

bool is_same_directory(const std::string& one, const std::string& other) {
  struct stat first {
  }, second{};
  return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// As the user's shell calls it: a link in it may lead elsewhere on other hosts, as with an automounted home.
// The real path where $PWD is not the same, or has steps that depend on links.
std::string working_directory(const std::vector<EnvVar>& environment, std::error_code& error) {
  auto real = std::filesystem::current_path(error).string();
  auto named = variable(environment, "PWD");
  const std::string steps = named + "/";
  const bool plain = named.starts_with('/') && steps.find("/./") == std::string::npos &&
                     steps.find("/../") == std::string::npos;
  return !error && plain && is_same_directory(named, real) ? named : real;
}

}  // namespace

Result<Inputs> inputs_of_this_process(int argc, char** argv, char** environment) {
  Inputs in;
  if (argc > 1) in.argv.assign(argv + 1, argv + argc);
  if (argc > 0) in.called_as = std::string(argv[0]).substr(std::string_view(argv[0]).rfind('/') + 1);
  if (argc > 1) hide_values({argv + 1, argv + argc});
  in.hostname = own_hostname();
  for (char** entry = environment; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=', 1);  // a name may begin with '=' in odd shells
    if (equals == std::string_view::npos) continue;
    in.environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::error_code error;
  in.directory = working_directory(in.environment, error);
  if (error)
    return fail(Code::config, fmt::format("the working directory: {}", error.message()),
                "cd to one that exists");
  auto id = fresh_job_id();
  if (!id) return tl::unexpected(id.error());
  in.job_id = std::move(*id);

  in.read_file = [](const std::string& path) { return read_file(path, largest_file); };
  in.local_facts = [variables = in.environment] { return local_facts(variables); };
  in.is_this_machine = transport::is_this_machine;
  in.local_cpus = [] { return agent::read_host_facts({.topology = true}).cpus; };
  in.mpi_of = [variables = in.environment](const std::vector<std::string>& words,
                                           const std::string& directory) {
    const auto program = agent::recognise(words, directory, variables);
    ProgramMpi found{program.family, program.guessed};
    found.here = !words.empty() && io::find_program(words.front(), path_of(variables), directory).error == 0;
    found.interpreter = program.interpreter;
    found.horovod = agent::uses_horovod(words, directory, variables);
    if (program.family != wire::MpiFamily::open_mpi) return found;
    auto libraries = agent::pmix_libraries(program, variables);
    std::erase_if(libraries, [](const auto& path) { return !agent::is_library(path); });
    if (!libraries.empty()) found.library = std::move(libraries.front());
    return found;
  };
  in.uses_horovod = [variables = in.environment](const std::vector<std::string>& words,
                                                 const std::string& directory) {
    return agent::uses_horovod(words, directory, variables);
  };
  in.is_executable = [](const std::string& path) {
    return is_kind(path, S_IFREG) && ::access(path.c_str(), X_OK) == 0;
  };
  in.why_no_program = [](const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0)
      return std::string(S_ISREG(info.st_mode) ? "" : "is a device, a pipe or a socket, not a file");
    return errno == EACCES ? "cannot be looked at: " + errno_text(errno) : std::string();
  };
  in.is_file = [](const std::string& path) { return is_kind(path, S_IFREG); };
  in.first_line = [](const std::string& path) { return first_line(path); };
  in.is_directory = [](const std::string& path) { return is_kind(path, S_IFDIR); };
  in.link_target = [](const std::string& path) {
    std::error_code none;
    const auto target = std::filesystem::read_symlink(path, none);
    return none ? std::string()
                : (std::filesystem::path(path).parent_path() / target).lexically_normal().string();
  };
  return in;
}

}  // namespace trainrun::cli
