// How the ranks of several hosts come to a HierBackend: those of a host share memory as ever, one of them
// tells the other hosts whether they do, and where all do, they find each other's Gloo.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/backends/hier/hier_backend.h"
#include "comm/backends/site.h"
#include "comm/failure.h"

namespace trainrun::comm {

struct HierMet {
  std::unique_ptr<HierBackend> backend{};  // not connected; null: on at least one host memory is not shared
  std::function<Outcome<Moved>()> connect{};
  std::string why_not{};  // in words, with the host
  bool objected = false;  // a rank did not want to
};

// All ranks of the grid call it, and all get the same answer. `objection`: what this rank has against it.
Outcome<HierMet> meet_on_hosts(const Site& site, const HostGrid& grid, const std::string& objection,
                               const std::string& folder);

}  // namespace trainrun::comm
