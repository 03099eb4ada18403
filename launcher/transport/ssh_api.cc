#include "launcher/transport/ssh_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>

#include "launcher/base/utf8.h"
#include "launcher/transport/ssh_words.h"

namespace trainrun::transport {

namespace {

Result<SshApi> load() {
  void* library = dlopen("libssh.so.4", RTLD_NOW | RTLD_LOCAL);  // never closed: it has threads' data
  if (library == nullptr)
    return tl::unexpected(no_libssh(fmt::format("libssh cannot be loaded: {}", dlerror())));
  SshApi api;
#define TRAINRUN_SSH_LOAD(name)                                                            \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name));                  \
  if (api.name == nullptr) {                                                               \
    return tl::unexpected(no_libssh("this libssh is too old: it has no function " #name)); \
  }
  TRAINRUN_SSH_FUNCTIONS(TRAINRUN_SSH_LOAD)
#undef TRAINRUN_SSH_LOAD
  if (api.ssh_version(SSH_VERSION_INT(0, 10, 0)) == nullptr) {
    return tl::unexpected(no_libssh(fmt::format("libssh {} is too old: 0.10 is needed", api.ssh_version(0))));
  }
  return api;
}

void drop(int, const char*, const char*, void*) {}

// It has words of the server in it.
void show(int, const char*, const char* text, void*) {
  std::fputs(("trainrun: libssh: " + printable(text) + "\n").c_str(), stderr);
}

}  // namespace

void set_ssh_log(const SshApi& api, bool shown) {
  api.ssh_set_log_callback(shown ? show : drop);
  api.ssh_set_log_level(shown ? SSH_LOG_PROTOCOL : SSH_LOG_NOLOG);
}

Result<const SshApi*> load_ssh_api() {
  static const Result<SshApi> api = load();
  if (!api) return tl::unexpected(api.error());
  return &*api;
}

}  // namespace trainrun::transport
