// What tells whether processes of two times or texts are of one machine: this boot, and in whose numbers
// processes are told here. Read once, since the kernel makes the name of a namespace anew each time, and a
// process stays where it is. Thread-safe. Empty: not known.
#pragma once

#include <string>

namespace trainrun::agent {

const std::string& boot_id();
const std::string& pid_namespace();  // "pid:[4026531836]"

// What a link in /proc leads to.
std::string link_in_proc(const std::string& path);

}  // namespace trainrun::agent
