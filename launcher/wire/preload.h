// What a host is told of --preload.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trainrun::wire {

// For whom a process is kept that has imported what they need, and forks them (agent/preloader.h).
struct Preload {
  struct Program {
    std::vector<std::string> argv;  // as in Start
    std::uint32_t interpreter = 0;  // argv[interpreter] is Python
    std::uint32_t command = 0;      // argv[command] is its script, -m or -c; what lies between are its flags
    std::string directory;
    std::vector<std::pair<std::string, std::string>> env;  // over OpenJob's, equal for all ranks
    template <class V>
    void fields(V& v) {
      v("argv", argv), v("interpreter", interpreter), v("command", command), v("directory", directory);
      v("env", env);
    }
  };
  bool automatic = false;
  std::vector<std::string> modules;
  std::uint32_t import_limit_ms = 0;  // for the imports
  std::vector<Program> programs;      // none: nobody is preloaded
  template <class V>
  void fields(V& v) {
    v("automatic", automatic), v("modules", modules), v("import_limit_ms", import_limit_ms),
        v("programs", programs);
  }
};

}  // namespace trainrun::wire
