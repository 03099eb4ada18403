// What the user sees: workers' lines on stdout and stderr, ours on stderr, and on a terminal one live status
// line that is wiped before anything else is printed and drawn again after.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/core/job_machine.h"
#include "launcher/core/job_spec.h"
#include "launcher/io/loop.h"
#include "launcher/output/farewell.h"
#include "launcher/output/file_threads.h"
#include "launcher/output/log_files.h"
#include "launcher/output/mux.h"
#include "launcher/output/terminal.h"
#include "launcher/output/writer.h"

namespace trainrun::output {

class Console {
 public:
  struct Handlers {
    std::function<void()> drained;  // it takes more again
    // Of our stdout; or of stderr, while ranks write there, when stdout has no reader either. May be called
    // twice.
    std::function<void()> nobody_reads;
  };
  Console(io::Loop& loop, const JobSpec& job, TerminalFacts terminal, Handlers handlers);
  ~Console();

  // Makes --output-filename's files; an Error names what cannot be made.
  Result<void> open_files();
  // From here on these workers have these ranks, by which their lines are marked. A line that a survivor has
  // begun stays its own.
  void begin_world(const core::Placement& placement, const std::vector<WorkerId>& workers);
  // These will have the last ranks of such a world.
  void add_newcomers(const core::Placement& placement, const std::vector<WorkerId>& workers);
  void worker_output(WorkerId worker, wire::Output stream, std::string_view bytes);
  void worker_finished(WorkerId worker);
  // A worker's stack is kept in rank.N/stack of --output-filename; gives what a line about the worker adds.
  // Nothing without that flag: its first lines can be shown.
  std::string keep_stack(Rank rank, const std::string& stack);
  void show_stack(Rank rank, const std::string& stack);
  void say(const std::string& line);  // one line of ours, "trainrun: " is put before it; nothing with -q
  void report(const std::vector<std::string>& lines);  // always printed
  void progress(const core::JobMachine::Progress& progress);
  // So much waits for a slow reader or disk that no more is to be taken from workers: they stop in their
  // writes.
  [[nodiscard]] bool is_behind() const;
  [[nodiscard]] bool takes_more();  // if not, `drained` is called as soon as it does
  // Of a worker of the current world.
  [[nodiscard]] std::vector<std::string> last_words(WorkerId worker) const;
  void forget_words(WorkerId worker);  // of an error that it has survived
  [[nodiscard]] std::vector<std::string> last_output(WorkerId worker) const;  // the same of stdout
  [[nodiscard]] bool raised(WorkerId worker) const;  // these are the exception of a traceback
  // The status line goes, and everything that workers wrote is shown: a reader that takes nothing is given an
  // hour, and told of after a minute, a disk --grace. Calls `shown` once; may be at once. `verdict`, unless
  // it is null, is asked after five seconds for a line about a failure that is not to wait for such a reader.
  void close(std::function<std::string()> verdict, std::function<void()> shown);
  // What of it was not: lines that say so, or none. To be asked when it was shown.
  [[nodiscard]] std::vector<std::string> lost_output() const;
  [[nodiscard]] bool reader_left() const { return out_.closed(); }  // before it had all
  // The last lines of all, after close(); calls `over` when they are out, or that is hopeless.
  void last_report(const std::vector<std::string>& lines, std::function<void()> over);
  // Somebody waits for the end: from then on no reader and no disk is waited for, but for the moment that a
  // healthy one needs.
  // `why`: "nobody read it ...", of what is lost then.
  void end_by(Instant until, std::string_view why = " in time");

  // The status line goes until it is drawn again: the shell is about to write there.
  void wipe();

 private:
  void moved();
  void open_lanes(const core::Placement& placement, const std::vector<WorkerId>& workers);
  [[nodiscard]] std::size_t backlog() const;
  void show(wire::Output stream, std::string& text);  // takes it
  void draw();
  void tick();
  void show_bars();
  void show_begun();
  void tell_full(const std::string& name, int error);
  void show_prompt(std::uint32_t lane);
  void wait_for_readers(std::function<void()> over);
  [[nodiscard]] std::size_t waiting_for_readers() const;

  // A lane of the mux for each worker, given again when its worker's world is over.
  struct Lane {
    std::uint32_t number = 0;
    Rank rank;
    bool finished = false;
  };

  const JobSpec& job_;
  Mux mux_;
  std::string shown_;  // empty, with the room of what was shown
  std::unordered_map<WorkerId, Lane> lanes_;
  std::uint32_t lane_count_ = 0;
  std::vector<std::uint32_t> free_lanes_;
  std::function<void()> drained_, nobody_reads_;
  bool refused_ = false;  // to take more
  FileThreads files_;
  Writer out_;
  // Only where stderr is another file than stdout. With 2>&1 and on a terminal one queue keeps lines whole,
  // and both streams in the order in which they came.
  std::optional<Writer> other_err_;
  Writer& err_;
  LogFiles logs_;
  const TerminalFacts terminal_;
  io::Timer timer_, bars_, begun_, prompt_;
  bool held_up_ = false;  // workers were, since the lines that have not ended were looked at
  Farewell farewell_;
  std::function<std::string()> verdict_{};
  std::optional<Instant> end_by_;
  std::string why_in_time_;
  std::size_t unread_ = 0;  // bytes for which a reader was waited in vain
  const bool live_;         // the terminal can redraw our line
  bool same_terminal_ = false;
  bool line_ended_ = true;  // on the terminal that is stderr: the cursor is at the start of a line
  bool drawn_ = false;
  std::optional<std::uint32_t> asking_;  // the lane whose unfinished line is on the terminal, for an answer
  Instant started_, last_output_;
  core::JobMachine::Progress progress_;
  bool logs_full_ = false, told_split_ = false;
  FileThread::Left left_{};  // what a stalled file did not get
};

}  // namespace trainrun::output
