// What both of MPI's worlds say.
#pragma once

#include <string_view>

namespace trainrun::agent {

// Of MPI_Comm_spawn and of names that a second world would look up.
constexpr std::string_view instead_of_a_second_world =
    "try: start all programs in one world, as in -np 1 ./parent : -np 4 ./child";

}  // namespace trainrun::agent
