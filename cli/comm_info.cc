#include "cli/comm_info.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "cli/parse.h"
#include "cli/subcommands.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {
namespace {

constexpr std::string_view file = "libtrainrun_comm.so.0";

std::string named_library(const std::vector<EnvVar>& environment) {
  for (const auto& [name, value] : environment)
    if (name == "TRAINRUN_COMM_LIBRARY") return value;
  return {};
}

// Beside this program, as it was installed or built; else the loader's.
std::string own_library() {
  std::string program(4096, '\0');
  const auto length = ::readlink("/proc/self/exe", program.data(), program.size());
  program.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  const auto bin = program.rfind("/bin/");
  if (bin != std::string::npos)
    for (const auto* const folder : {"/lib/", "/lib/" TRAINRUN_MULTIARCH "/", "/lib64/"}) {
      const auto path = program.substr(0, bin) + folder + std::string(file);
      struct stat status {};
      if (::stat(path.c_str(), &status) == 0) return path;
    }
  return std::string(file);
}

}  // namespace

Result<std::string> comm_info(const std::vector<std::string>& words, const Inputs& inputs) {
  const auto parsed = parse(comm_info_line(), words);
  if (!parsed) return tl::unexpected(parsed.error());
  if (asks_for_help(*parsed)) return comm_info_help();
  const auto named = named_library(inputs.environment);
  const auto path = named.empty() ? own_library() : named;
  constexpr std::string_view hint =
      "install the package of the library, or set TRAINRUN_COMM_LIBRARY to its path";
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return fail(Code::not_found, fmt::format("comm-info: {}", why == nullptr ? path : why),
                std::string(hint));
  }
  using Describe = const char* (*)(int);
  const auto describe = reinterpret_cast<Describe>(::dlsym(library, "trc_describe_host"));
  const char* const text = describe == nullptr ? nullptr : describe(parsed->flags.empty() ? 0 : 1);
  if (text == nullptr)
    return fail(Code::not_found, fmt::format("comm-info: {} is of another version", quoted(path, 300)),
                std::string(hint));
  return text;
}

}  // namespace trainrun::cli
