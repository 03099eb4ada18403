// Who was ended by a signal and cleaned up first ends by that signal in the end: a shell's loop stops at ^C
// only when its command died of it, and a parent that looks sees the true cause.
#pragma once

namespace trainrun {

// Without a core. Gives the exit code to end with where the signal cannot kill us: the kernel spares the
// first process of a container.
int end_by_signal(int number);

// This process was started so, as by nohup.
bool is_ignored(int number);

}  // namespace trainrun
