// What may wait in a write is written by a thread of its own: a file system that stalls (a server that is
// gone, a frozen disk), or a terminal that is not ours to open. It then holds up the output that is meant for
// it, and nothing else. Pings and signals go on, and no rank is blamed.
//
// What waits counts as backlog, by which ranks are held back in the end (launcher/README.md). Bytes of one
// file stay in order. All members are called on the loop's thread. The thread is started by the first write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/io/loop.h"

namespace trainrun::output {

class FileThread {
 public:
  struct Handlers {
    std::function<void()> drained = [] {};  // a backlog has gone below Writer::low_water
    // Once: the file has taken nothing for so long.
    std::function<void(const std::string& name, Duration since)> stalled = [](const auto&, Duration) {};
    std::function<void()> moved = [] {};  // something was written, or could not be
    std::function<void(const std::string&)> said = [](const auto&) {};  // what later() had to say
  };
  // Told with errno when a file takes no more; what is to be written is dropped until it does again. Then a
  // line in the file says how much is missing there.
  using Failed = std::function<void(int error)>;
  using File = std::size_t;

  // `step`: the most bytes for one write.
  FileThread(io::Loop& loop, Handlers handlers, Duration stalls_after = seconds(5),
             std::size_t step = std::numeric_limits<std::size_t>::max());
  // Waits for no write that hangs: the thread is left to itself, and does nothing once the write returns.
  ~FileThread();
  FileThread(const FileThread&) = delete;
  FileThread& operator=(const FileThread&) = delete;

  File add(int fd, std::string name, Failed failed);  // somebody else's, open until the end of the process
  File add(Fd fd, std::string name, Failed failed);
  void write(File file, std::string_view bytes);
  // The same without a copy, and when the loop's turn is over: what a turn brings becomes one write, and
  // costs one change of threads. `bytes` is empty then, with the room of others that were written.
  void take(File file, std::string& bytes);
  // Any other work that may wait for a disk, after what is queued already. It must not touch what the loop
  // uses. It gives a line for the user, or none.
  void later(std::function<std::string()> work);

  [[nodiscard]] std::size_t backlog() const;  // bytes
  [[nodiscard]] std::size_t lost() const;     // bytes that will never be written

  struct Loss {
    std::string name;
    std::size_t bytes = 0;
  };
  [[nodiscard]] std::vector<Loss> losses() const;  // by file
  [[nodiscard]] bool idle() const;                 // all is done, and all of it was told

  struct Left {
    std::size_t bytes = 0;
    std::string name{};  // of the first file that has not got all
  };
  // For the very end. What is left counts as lost; files of others can be written to again, by a new thread.
  Left give_up();

 private:
  struct State;
  void wake();
  void happened();
  void look();
  void leave_thread();

  io::Loop& loop_;
  Handlers handlers_;
  std::shared_ptr<State> state_;
  std::shared_ptr<FileThread*> self_;  // empty when we are gone: for what is still posted
  const Duration stall_;
  const std::size_t step_;
  io::Timer watch_;
  std::uint64_t seen_ = 0;
  bool told_ = false, high_ = false, wakes_ = false;
  std::size_t lost_before_ = 0;
};

}  // namespace trainrun::output
