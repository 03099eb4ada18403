// What a script of Python's imports, as far as its text tells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainrun::agent {

// Modules, as they are written: "os", "horovod.torch", ".models.net". Of `import`, wherever in a line it
// stands and however many it takes, and of __import__ and import_module of a name that stands there.
std::vector<std::string> imported_by(std::string_view source);

}  // namespace trainrun::agent
