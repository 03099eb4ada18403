// Names of what facts speak of, as sentences use them; shared by the words of notices and of causes.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/cause.h"

namespace trainrun::output {

std::string name(const core::RankRef& who);  // "rank 3 on gpu1"
std::vector<std::string> names(const std::vector<core::RankRef>& ranks);
// "part 2 ('./ring')"; of one program on two hosts "'./ring' on node2".
std::string name(const core::MpiPart& one, const core::MpiPart& other);
std::vector<std::string> resized(const std::vector<core::HostSlots>& hosts);  // "node1 has 2 slots now"
std::string leaving(const std::string& reason, bool by_user);

}  // namespace trainrun::output
