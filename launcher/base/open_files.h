// The limit on open descriptors. The launcher holds five a host and an agent five a rank, so the usual soft
// limit of 1024 would be met at two hundred hosts; the hard one is far away.
#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>

#include "launcher/base/error.h"

namespace trainrun {

// Raises the soft limit to the hard one. At the start of a program, before it has threads; a fork inherits
// it.
void raise_open_files();

// What a program that we start is to get: the limit as we were given it. Some use select(), which cannot name
// a descriptor above 1023, and some close every number up to their limit. Empty: it was not raised.
std::optional<rlimit> open_files_given();

// What to try after EMFILE or ENFILE; empty for other errors.
std::string open_files_hint(int error);

// Where the kernel refuses an event loop what it needs: a descriptor, or one more to watch.
Error no_more_to_wait_with(int error);

}  // namespace trainrun
