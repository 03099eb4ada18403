#pragma once

namespace trainrun {

// Puts /dev/null where stdin, stdout or stderr were closed when we were started. Otherwise the next files of
// ours would get these numbers, and who means the stream would read or write them. First of all in a process.
void open_closed_standard_streams();

}  // namespace trainrun
