// What do the workers do? For a world that seems to hang: the state of each, what it used of CPU and I/O
// within a short time, where it waits in the kernel, and its stack as far as the system shows it.
//
// It only looks: a worker that ends meanwhile is left out, and one inspection runs at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/stack_tool.h"
#include "launcher/agent/supervisor.h"
#include "launcher/io/frame_stream.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class Inspector {
 public:
  // Both must outlive it.
  Inspector(io::Loop& loop, io::FrameStream& link, const Supervisor& supervisor);
  ~Inspector();

  void setup(const std::string& search_path);  // where py-spy and gdb are looked for
  void begin(const wire::Inspect& order);
  // A zombie of ours that is no worker: takes its status if it was a tool.
  bool take(pid_t child);
  [[nodiscard]] bool is_tool(pid_t child) const;
  [[nodiscard]] std::vector<pid_t> tools() const;  // that look now
  void drop();                                     // ends the tools and answers no more

 private:
  struct Subject;
  void take_next();
  void sampled();
  void start_tools();
  void answer(Subject& subject, const std::string& tool_output);

  io::Loop& loop_;
  io::FrameStream& link_;
  const Supervisor& supervisor_;
  std::string search_path_;
  std::deque<wire::Inspect> orders_;  // the first one is under way
  std::vector<std::unique_ptr<Subject>> subjects_;
  io::Timer sample_;
};

}  // namespace trainrun::agent
