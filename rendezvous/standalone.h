// `trainrun rendezvous`: the server alone, for workers that somebody else starts.
#pragma once

#include <string>
#include <vector>

namespace trainrun::rendezvous {

// `words` are those after the subcommand's name. Gives the exit code: 0 all members left, 69 a member was
// lost or gave up, 124 --timeout, 130/143/129 INT/TERM/HUP, 2 usage, 70, 75.
int rendezvous_main(const std::vector<std::string>& words);

}  // namespace trainrun::rendezvous
