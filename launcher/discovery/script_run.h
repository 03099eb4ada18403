// One run of a command whose output is an answer. It cannot hang us, and leaves nothing behind.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/time.h"
#include "launcher/io/loop.h"

namespace trainrun {

struct ScriptCommand {
  std::string command;                     // for /bin/sh -c
  std::vector<std::string> arguments{};    // its "$1", "$2"...
  std::vector<std::string> environment{};  // NAME=VALUE each, and nothing else
  Duration limit = seconds(30);            // then all of it is killed
  std::size_t most_output = 10'000'000;    // bytes of stdout; then all of it is killed
};

struct ScriptAnswer {
  Result<std::string> output;  // stdout of a run that ended with 0; failures end with the last words
  std::vector<std::string> complaints{};  // the first lines of stderr, printable, without their ends
  std::size_t more_complaints = 0;        // how many lines came after them
};

// The command leads a session and process group of its own, with stdin at /dev/null. However it ends, by
// itself, by its limit or because this object or the whole launcher goes (kill -9 too), every process of its
// group is killed; what made itself a session of its own is not known to us. A process that it left behind
// with stdout or stderr open is waited for half a second after its end.
class ScriptRun {
 public:
  struct Handlers {
    std::function<void(ScriptAnswer)> answer;  // once
    // Once, after `answer`: its process has been reaped, another may run. Late or never if the kernel holds
    // it.
    std::function<void()> gone;
  };
  // Handlers are called from the loop, never from in here, and may destroy the object.
  ScriptRun(io::Loop& loop, const ScriptCommand& command, Handlers handlers);
  ~ScriptRun();  // kills and reaps, blocking for at most a second; handlers are not called any more
  ScriptRun(const ScriptRun&) = delete;
  ScriptRun& operator=(const ScriptRun&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trainrun
