// What `ps` shows of us. Pure but for the words themselves.
#pragma once

#include <span>

namespace trainrun::cli {

// `ps` shows our words to every user of this host, and to those of the agent that is forked from us. Values
// of variables may be secrets: in each `-x NAME=VALUE`, however -x is spelled, VALUE is overwritten with
// stars, and so it is in Hydra's `-genv NAME VALUE` and `-env NAME VALUE` and in Open MPI's
// `--mca mca_base_env_list NAME=VALUE;...`. Words of the program that look the
// same are overwritten as well; it gets its words from a copy.
void hide_values(std::span<char* const> words);

}  // namespace trainrun::cli
