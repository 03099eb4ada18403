#include "launcher/host_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "launcher/base/strings.h"

namespace trainrun {
namespace {

// What helps depends on why the directory cannot be made; `path` is the one that was tried last.
std::string advice_for_job_directory(const std::string& path, int error) {
  const auto parent = path.substr(0, path.rfind('/'));
  if (error == ENOSPC || error == EDQUOT)
    return fmt::format("free space in {} there, or name another directory with -x TMPDIR=DIR",
                       quoted(parent, 300));
  if (parent == "/tmp" || parent == "/dev/shm")  // the last resort, when no TMPDIR is set
    return fmt::format("see why {} cannot be written there, or name another directory with -x TMPDIR=DIR",
                       quoted(parent, 300));
  return fmt::format(
      "TMPDIR is {} there: make that a directory that you can write to, or name another "
      "with -x TMPDIR=DIR",
      quoted(parent, 300));
}

std::string advice_for_program(const wire::Problem& problem, bool missing,
                               const std::vector<FoundProgram>& found_here) {
  const auto found = std::find_if(found_here.begin(), found_here.end(),
                                  [&](const FoundProgram& one) { return one.path == problem.what; });
  if (problem.what.ends_with('\r'))
    return "its script's lines end as in Windows: convert it, as by sed -i 's/\\r$//' FILE";
  if (problem.error == EISDIR) return "name a program in it";
  const std::string install = missing ? "install it there under the same path" : "chmod +x there";
  if (found != found_here.end() && !found->name.empty()) {
    return fmt::format("{}, or let each host look for {} in its own PATH: --resolve each", install,
                       quoted(found->name, 300));
  }
  if (found != found_here.end() && !found->script.empty())
    return fmt::format("{}; the first line of {} asks for it", install, quoted(found->script, 300));
  if (missing && problem.what.starts_with('/')) return "check the spelling, or copy it there";
  return missing ? "check the spelling, copy it there, or forward a PATH that finds it (-x PATH)"
                 : "chmod +x, or name its interpreter";
}

Error explain(const std::string& host, const wire::Problem& problem,
              const std::vector<FoundProgram>& found_here) {
  const auto why = errno_text(problem.error);
  const bool denied = problem.error == EACCES;
  switch (problem.kind) {
    case wire::Problem::Kind::directory:
      return {Code::config,
              fmt::format("{}: no usable directory {}: {}", host, quoted(problem.what, 300), why),
              denied ? "let the user of that login enter it, or choose another one with --wdir"
                     : "make it there, or choose one that all hosts have with --wdir"};
    case wire::Problem::Kind::program: {
      const bool missing = problem.error == ENOENT || problem.error == ENOTDIR;
      return {missing ? Code::not_found : Code::not_executable,
              fmt::format("{}: program {} {}: {}", host, quoted(problem.what, 300),
                          missing ? "not found" : "cannot be executed", why),
              advice_for_program(problem, missing, found_here)};
    }
    case wire::Problem::Kind::script:
      return {problem.error == ENOENT || problem.error == ENOTDIR ? Code::not_found : Code::not_executable,
              fmt::format("{}: script {} cannot be read: {}", host, quoted(problem.what, 300), why),
              denied ? "let the user of that login read it"
                     : "check the spelling, or copy it there; a relative path is looked for in the working "
                       "directory (--wdir)"};
    case wire::Problem::Kind::job_directory:
      return {Code::bootstrap,
              fmt::format("{}: cannot make the job's private directory {}: {}", host,
                          quoted(problem.what, 300), why),
              advice_for_job_directory(problem.what, problem.error)};
    case wire::Problem::Kind::pmix:
      return {Code::config,
              fmt::format("{}: {} is a program of Open MPI, and there is no libpmix.so.2 by which its ranks "
                          "could find each other",
                          host, problem.what.empty() ? "the program" : quoted(problem.what, 300)),
              "install the package libpmix2 there, or name the library with --pmix-lib; --compat none makes "
              "each rank a world of one"};
    case wire::Problem::Kind::pmix_library:
      return {
          Code::config,
          fmt::format("{}: the library of --pmix-lib, {}, cannot be read: {}", host,
                      quoted(problem.what, 300), why),
          "give its path on that host, or leave --pmix-lib out: the library that the program itself would "
          "load is taken"};
    case wire::Problem::Kind::bad_pmix:
      return {
          Code::config,
          fmt::format("{}: {}, by which ranks of Open MPI find each other, is no library that can be loaded",
                      host, quoted(problem.what, 300)),
          "install the package libpmix2 there anew, or name another library with --pmix-lib"};
  }
  return {};
}

}  // namespace

Error explain_problems(const std::string& host, const std::vector<wire::Problem>& problems,
                       const std::vector<FoundProgram>& found_here) {
  auto error = explain(host, problems.front(), found_here);
  for (std::size_t i = 1; i < problems.size(); ++i)
    error.message += "; " + explain(host, problems[i], found_here).message;
  return error;
}

}  // namespace trainrun
