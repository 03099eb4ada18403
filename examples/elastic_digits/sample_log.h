// Evidence for tests: how often each digit was used in an epoch.
#pragma once

#include <string>
#include <vector>

// One line a digit, "INDEX COUNT", in a file that is there whole or not at all. Several processes may write
// the same one; an epoch whose end was undone by a failure is written again. Throws std::runtime_error.
void write_sample_log(const std::string& path, const std::vector<int>& counts);
