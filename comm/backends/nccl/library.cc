#include "comm/backends/nccl/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <optional>

#include "launcher/base/strings.h"

namespace trainrun::comm::nccl {
namespace {

constexpr const char* soname = "libnccl.so.2";
constexpr int oldest = 21400;  // the first with communicators that do not block

std::mutex mutex;
const Library* loaded = nullptr;
std::string wheel;  // that Python has told us of

std::string text_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string why_not() {
  const char* const text = ::dlerror();
  return text == nullptr ? "the loader does not say why" : text;
}

std::string path_of(void* handle) {
  const link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0 || map == nullptr) return "?";
  return map->l_name;
}

template <class Function>
bool symbol(void* handle, const char* name, Function& into) {
  into = reinterpret_cast<Function>(::dlsym(handle, name));
  return into != nullptr;
}

// The name of the first that is missing.
std::optional<const char*> missing_symbol(void* handle, Functions& call) {
  symbol(handle, "ncclCommInitRankScalable", call.init_rank_scalable);
  std::optional<const char*> missing;
  const auto take = [&](const char* name, auto& into) {
    if (!symbol(handle, name, into) && !missing) missing = name;
  };
  take("ncclGetVersion", call.get_version);
  take("ncclGetUniqueId", call.get_unique_id);
  take("ncclGetErrorString", call.get_error_string);
  take("ncclGetLastError", call.get_last_error);
  take("ncclCommInitRankConfig", call.init_rank_config);
  take("ncclCommGetAsyncError", call.get_async_error);
  take("ncclCommFinalize", call.finalize);
  take("ncclCommDestroy", call.destroy);
  take("ncclCommAbort", call.abort);
  take("ncclAllReduce", call.all_reduce);
  take("ncclReduce", call.reduce);
  take("ncclBroadcast", call.broadcast);
  take("ncclReduceScatter", call.reduce_scatter);
  take("ncclAllGather", call.all_gather);
  take("ncclSend", call.send);
  take("ncclRecv", call.recv);
  take("ncclGroupStart", call.group_start);
  take("ncclGroupEnd", call.group_end);
  return missing;
}

tl::expected<const Library*, std::string> use(void* handle, std::string origin) {
  Library library;
  library.path = path_of(handle);
  library.origin = std::move(origin);
  const auto missing = missing_symbol(handle, library.call);
  const bool told =
      library.call.get_version != nullptr && library.call.get_version(&library.version) == Answer::success;
  if (told && library.version < oldest)
    return tl::unexpected(fmt::format("{} is NCCL {}, and {} is the oldest that can be used", library.path,
                                      version_text(library.version), version_text(oldest)));
  if (missing) return tl::unexpected(fmt::format("{} has no {}", library.path, *missing));
  if (!told) return tl::unexpected(fmt::format("{} does not tell its version", library.path));
  return loaded = new Library(std::move(library));
}

// Where Python installations may be of which this process is a part.
std::vector<std::string> own_prefixes() {
  std::vector<std::string> prefixes;
  for (const char* const name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (auto prefix = text_of(name); !prefix.empty()) prefixes.push_back(std::move(prefix));
  std::string program(4096, '\0');
  const auto length = ::readlink("/proc/self/exe", program.data(), program.size());
  program.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  if (const auto bin = program.rfind("/bin/"); bin != std::string::npos)
    prefixes.push_back(program.substr(0, bin));
  return prefixes;
}

}  // namespace

std::vector<std::string> wheels_below(const std::vector<std::string>& prefixes) {
  std::vector<std::string> found;
  for (const auto& prefix : prefixes) {
    std::string literal;
    for (const char letter : prefix) {
      if (letter == '*' || letter == '?' || letter == '[' || letter == '\\') literal += '\\';
      literal += letter;
    }
    glob_t matches{};
    const auto pattern = literal + "/lib/python3*/site-packages/nvidia/nccl/lib/" + soname;
    if (::glob(pattern.c_str(), 0, nullptr, &matches) == 0)
      for (std::size_t i = 0; i < matches.gl_pathc; ++i) found.emplace_back(matches.gl_pathv[i]);
    ::globfree(&matches);
  }
  return found;
}

tl::expected<const Library*, std::string> library() {
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  if (void* const handle = ::dlopen(soname, RTLD_NOW | RTLD_NOLOAD); handle != nullptr)
    return use(handle, "the program's");
  auto wheels = wheels_below(own_prefixes());
  if (!wheel.empty()) wheels.insert(wheels.begin(), wheel);
  const auto named = text_of("TRAINRUN_NCCL_LIB");
  std::string path = soname, origin = "the system's";
  if (!wheels.empty()) {
    path = wheels.front();
    origin = "the wheel beside the interpreter";
  } else if (!named.empty()) {
    path = named;
    origin = "TRAINRUN_NCCL_LIB";
  }
  if (void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr)
    return use(handle, origin);
  if (path != soname) return tl::unexpected(fmt::format("{} ({}): {}", quoted(path), origin, why_not()));
  return tl::unexpected(fmt::format(
      "the program has loaded none, there is no wheel beside the interpreter, TRAINRUN_NCCL_LIB is not set, "
      "and of the system's: {}",
      why_not()));
}

void look_at_wheel(std::string path) {
  const std::lock_guard lock(mutex);
  wheel = std::move(path);
}

std::string version_text(int version) {
  const int scale = version >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", version / scale, version % scale / 100, version % 100);
}

}  // namespace trainrun::comm::nccl
