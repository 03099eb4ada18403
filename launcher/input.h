// Our stdin on its way to the ranks that have it. It is read only when all of them want more, and only while
// we are in the foreground of our terminal: `trainrun ... &` is never stopped for it. Its end never ends the
// job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "launcher/base/id.h"
#include "launcher/io/loop.h"

namespace trainrun {

class Input {
 public:
  // `give` hands bytes to one worker; `end` is true with the last ones.
  Input(io::Loop& loop, std::function<void(WorkerId, const std::string& bytes, bool end)> give);
  ~Input();

  // Whether stdin is something that a worker of this host can simply be given: a file, pipe or socket, but no
  // terminal.
  static bool can_be_inherited();

  void add(WorkerId worker);  // a rank that has stdin
  // One that has its place in the world later: until then it is given nothing, and holds up nobody. What it
  // reads then is what comes from then on, or the end when it is not a rank that has stdin.
  void add_newcomer(WorkerId worker);
  bool admit(WorkerId worker, bool has_stdin);  // false for any other, for which it does nothing
  void remove(WorkerId worker);                 // it ended
  void wanted(WorkerId worker, std::uint32_t bytes);
  void taken(WorkerId worker, std::uint64_t bytes);  // in all, told before it is removed

  // At the end: how many bytes were read that no rank has taken. Those of a file are put back, so to say: it
  // is read on from there, by the loop of a shell or by the shell itself, and none are lost. A terminal's do
  // not count.
  std::uint64_t give_back();

 private:
  struct Source;
  struct Part {  // of all that was read, what a worker was given
    std::uint64_t begin = 0, end = 0;
  };
  void look();
  void later();
  void read();
  void take(const std::string& bytes, int error);
  void finish();

  io::Loop& loop_;
  std::function<void(WorkerId, const std::string&, bool)> give_;
  std::unique_ptr<Source> source_;
  std::map<WorkerId, std::uint64_t> windows_;
  std::map<WorkerId, std::uint64_t> newcomers_;  // the same, of those that have no place yet
  // Of those, too, that have closed their stdin, until they say what they took.
  std::map<WorkerId, Part> parts_;
  std::uint64_t reached_ = 0;  // of all that was read: up to here a rank that ended has taken it
  io::Timer background_;
};

}  // namespace trainrun
