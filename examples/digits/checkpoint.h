// The state of a training, on disk whole or not at all.
#pragma once

#include <string>

#include "network.h"

namespace digits {

// Writes beside `path`, forces it to the disk and renames it: a crash at any point leaves the old file or the
// new one. Throws std::runtime_error.
void save_checkpoint(const std::string& path, const Network& network, int epochs_done);

// The number of epochs that the checkpoint has seen, with the network set to it; 0 when there is no file.
// Throws std::runtime_error when there is one that cannot be used.
int load_checkpoint(const std::string& path, Network& network);

}  // namespace digits
