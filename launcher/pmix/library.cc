#include "launcher/pmix/library.h"

#include <dlfcn.h>

namespace trainrun::pmix {
namespace {

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

bool Library::load(const std::vector<std::string>& paths, std::string& error) {
  for (const auto& candidate : paths) {
    // Its plugins look for its symbols among those of the whole program.
    void* const handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
      const char* const why = ::dlerror();
      error = why != nullptr ? why : candidate + ": cannot be loaded";
      continue;
    }
    const bool whole = find(handle, "PMIx_server_init", server_init) &&
                       find(handle, "PMIx_generate_regex", generate_regex) &&
                       find(handle, "PMIx_generate_ppn", generate_ppn) &&
                       find(handle, "PMIx_server_register_nspace", register_name_space) &&
                       find(handle, "PMIx_server_deregister_nspace", deregister_name_space) &&
                       find(handle, "PMIx_server_register_client", register_client) &&
                       find(handle, "PMIx_server_setup_fork", setup_fork) &&
                       find(handle, "PMIx_server_dmodex_request", modex_request) &&
                       find(handle, "PMIx_Notify_event", notify_event) &&
                       find(handle, "PMIx_Error_string", error_string) &&
                       find(handle, "PMIx_Get_version", version);
    if (!whole) {
      error = candidate + ": has no server of PMIx in it";
      continue;
    }
    find(handle, "PMIx_Value_load", load_value);
    find(handle, "PMIx_Parse_cpuset_string", parse_cpuset);
    find(handle, "PMIx_server_generate_locality_string", locality_string);
    path = candidate;
    return true;
  }
  return false;
}

}  // namespace trainrun::pmix
