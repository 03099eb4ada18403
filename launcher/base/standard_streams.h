#pragma once

namespace trainrun {

// Puts /dev/null where stdin, stdout or stderr were closed when we were started. Otherwise the next files of
// ours would get these numbers, and who means the stream would read or write them. It can be read alone: a
// write fails as to a closed stream, and so what is lost is not lost in silence. First of all in a process.
void open_closed_standard_streams();

}  // namespace trainrun
