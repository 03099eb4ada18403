// What the text of a script tells of where its ranks meet.
//
// Accelerate, and Hugging Face's Trainer over it, use the CPU of a host without GPUs only if they are told
// to. Else each rank goes on as rank 0 of 1, also after its release of today has called init_process_group:
// no connection tells that, but the script does.
#pragma once

#include <string>
#include <vector>

namespace trainrun::agent {

// Whether this script of Python's is one of these and says nothing of the CPU, neither in its text nor in its
// words. False where somebody else may say it: another launcher, a file of settings.
bool leaves_cpu_unasked(const std::vector<std::string>& words, const std::string& directory);

// Whether the text of this script of Python's names a place to meet at, as MASTER_PORT or an init_method: its
// ranks may meet there for a moment that nobody sees.
bool names_a_meeting(const std::vector<std::string>& words, const std::string& directory);

// A GPU or something like it, of whatever make.
bool has_accelerator();

}  // namespace trainrun::agent
