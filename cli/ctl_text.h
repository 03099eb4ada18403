// What `trainrun ctl` prints for people. Pure; text of others is made printable on terminals.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/control/protocol.h"

namespace trainrun::cli {

std::string world_text(const control::WorldView& world);

// What is known of a host after it was added, behind "NAME added": empty when it is there, or is not
// needed. Nothing is given as long as it is being reached.
std::optional<std::string> after_adding(const control::WorldView& world, const std::string& name);

// A job as the list shows it; of one that does not answer only the id is known.
struct ListedJob {
  std::string id;
  std::optional<control::Identity> identity{};
};
// `when` turns seconds since 1970 into the words of a local time.
std::string jobs_text(const std::vector<ListedJob>& jobs, std::string (*when)(std::int64_t));

}  // namespace trainrun::cli
