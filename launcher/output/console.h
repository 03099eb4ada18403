// What the user sees: workers' lines on stdout and stderr, ours on stderr, and on a terminal one live status
// line that is wiped before anything else is printed and drawn again after.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/core/job_machine.h"
#include "launcher/core/job_spec.h"
#include "launcher/io/loop.h"
#include "launcher/output/mux.h"
#include "launcher/output/terminal.h"
#include "launcher/output/writer.h"

namespace trainrun::output {

class Console {
 public:
  struct Handlers {
    std::function<void()> drained;        // a stalled reader has caught up
    std::function<void()> stdout_closed;  // nobody reads our stdout any more
  };
  Console(io::Loop& loop, const JobSpec& job, TerminalFacts terminal, Handlers handlers);
  ~Console();

  // Opens --output-filename's files; an Error names the one that cannot be made. What a run before left in
  // them stays until their rank starts: a start that fails costs no log.
  Result<void> open_files();
  // From here on these workers have these ranks, by which their lines are marked. A line that a survivor has
  // begun stays its own.
  void begin_world(const core::Placement& placement, const std::vector<WorkerId>& workers);
  void worker_output(WorkerId worker, wire::Output stream, std::string_view bytes);
  void worker_finished(WorkerId worker);
  // Where a worker's stack is kept: appended to DIR/rank.N/stack of --output-filename, else printed; gives
  // what a line about the worker adds.
  std::string keep_stack(Rank rank, const std::string& stack);
  void say(const std::string& line);  // one line of ours, "trainrun: " is put before it; nothing with -q
  void report(const std::vector<std::string>& lines);  // always printed
  void progress(const core::JobMachine::Progress& progress);
  // Bytes that wait for a slow reader.
  [[nodiscard]] std::size_t backlog() const;
  // Of a worker of the current world.
  [[nodiscard]] std::vector<std::string> last_words(WorkerId worker) const;
  void close();  // everything shown, status line gone

 private:
  void show(wire::Output stream, const std::string& text);
  void wipe();
  void draw();
  void tick();
  void show_bars();
  void show_prompt(std::uint32_t lane);
  void empty_files(Rank rank);  // once
  void file_output(Rank rank, wire::Output stream, std::string_view bytes);

  // A lane of the mux for each worker, given again when its worker's world is over.
  struct Lane {
    std::uint32_t number = 0;
    Rank rank;
    bool finished = false;
  };

  const JobSpec& job_;
  Mux mux_;
  std::unordered_map<WorkerId, Lane> lanes_;
  std::uint32_t lane_count_ = 0;
  std::vector<std::uint32_t> free_lanes_;
  Writer out_, err_;
  const TerminalFacts terminal_;
  io::Timer timer_, bars_, prompt_;
  const bool live_;  // stderr is a terminal that can redraw
  bool same_terminal_ = false;
  bool line_ended_ = true;  // on the terminal that is stderr: the cursor is at the start of a line
  bool drawn_ = false;
  Instant started_, last_output_;
  core::JobMachine::Progress progress_;
  struct File {
    Fd fd;
    bool ours = false;  // what is in it is of this job
  };
  std::map<std::pair<std::uint32_t, wire::Output>, File> files_;
  bool files_failed_ = false;
};

}  // namespace trainrun::output
