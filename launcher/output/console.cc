#include "launcher/output/console.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <set>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/output/our_lines.h"
#include "launcher/output/shown.h"
#include "launcher/output/status_line.h"

namespace trainrun::output {
namespace {

constexpr Duration redraw_interval = milliseconds(200), prompt_pause = milliseconds(200);
constexpr Duration bar_interval = seconds(1), begun_interval = seconds(5);
constexpr std::size_t most_backlog = std::size_t{4} << 20;
constexpr Duration long_silence = seconds(60);
// The innermost frames say where a rank waits; all of them, of every rank, would hide everything else.
constexpr std::size_t most_stack_lines = 12;

std::string wall_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                     now.tv_nsec / 1'000'000);
}

bool same_file(int one, int other) {
  struct stat of[2] = {};
  if (::fstat(one, &of[0]) != 0 || ::fstat(other, &of[1]) != 0) return false;
  return of[0].st_dev == of[1].st_dev && of[0].st_ino == of[1].st_ino;
}

MuxStyle style_of(const JobSpec& job, const TerminalFacts& terminal) {
  MuxStyle style;
  style.terminal_out = terminal.out;
  style.terminal_err = terminal.err;
  style.colour = terminal.colour;
  style.timestamp = job.timestamp;
  style.one_file = same_file(STDOUT_FILENO, STDERR_FILENO);
  style.raw = passes_bytes(job);
  return style;
}

// The shell has the terminal while we are in the background: nothing may be drawn over its prompt. A terminal
// that is not our session's has no foreground to ask for (-1).
bool in_foreground() {
  const auto group = ::tcgetpgrp(STDERR_FILENO);
  return group < 0 || group == ::getpgrp();
}

}  // namespace

Console::Console(io::Loop& loop, const JobSpec& job, TerminalFacts terminal, Handlers handlers)
    : job_(job),
      mux_(style_of(job, terminal), wall_clock),
      drained_(std::move(handlers.drained)),
      nobody_reads_(handlers.nobody_reads),
      files_(loop, {[] {},
                    [this](const std::string& name, Duration since) {
                      say(fmt::format(
                          "{} has taken nothing for {}: its file system stalls, and ranks that print "
                          "much will wait for it",
                          name, format_duration(since)));
                    },
                    [this] { moved(); }, [this](const std::string& line) { say(line); }}),
      out_(loop, files_, STDOUT_FILENO, "stdout",
           {nullptr, handlers.nobody_reads, [this](int error) { tell_full("stdout", error); },
            [this] { moved(); }}),
      err_(same_file(STDOUT_FILENO, STDERR_FILENO)
               ? out_
               : other_err_.emplace(loop, files_, STDERR_FILENO, "stderr",
                                    Writer::Handlers{nullptr, nullptr, [](int) {}, [this] { moved(); }})),
      logs_(files_,
            [this](const std::string& path, int error) {
              if (!std::exchange(logs_full_, true)) tell_full(path, error);
            }),
      terminal_(terminal),
      timer_(loop),
      bars_(loop),
      begun_(loop),
      prompt_(loop),
      farewell_(loop),
      live_(terminal.redraw && !job.quiet),
      started_(io::Loop::now()),
      last_output_(started_) {
  same_terminal_ = terminal.out && terminal.err;
  if (!job.quiet) tick();
}

Console::~Console() = default;

void Console::begin_world(const core::Placement& placement, const std::vector<WorkerId>& workers) {
  const std::set<WorkerId> present(workers.begin(), workers.end());
  for (auto it = lanes_.begin(); it != lanes_.end();) {
    if (present.contains(it->first) || !it->second.finished) {
      ++it;
      continue;
    }
    free_lanes_.push_back(it->second.number);
    it = lanes_.erase(it);
  }
  open_lanes(placement, workers);
  logs_.ranks_start();
}

void Console::add_newcomers(const core::Placement& placement, const std::vector<WorkerId>& workers) {
  open_lanes(placement, workers);
}

// For the workers in its last seats.
void Console::open_lanes(const core::Placement& placement, const std::vector<WorkerId>& workers) {
  std::vector<std::string> hosts;
  for (const auto& seat : placement.seats) hosts.push_back(job_.hosts.hosts[seat.host.value].name);
  const auto tag = tag_of(job_);
  const auto labels =
      tag == Tag::none ? std::vector<std::string>(hosts.size()) : make_labels(hosts, tag == Tag::host);
  auto rank = hosts.size() - workers.size();
  for (const auto worker : workers) {
    auto [it, fresh] = lanes_.try_emplace(worker);
    auto& lane = it->second;
    if (fresh && free_lanes_.empty()) {
      lane.number = lane_count_++;
    } else if (fresh) {
      lane.number = free_lanes_.back();
      free_lanes_.pop_back();
    }
    lane.rank = Rank{static_cast<std::uint32_t>(rank)};
    mux_.open(lane.number, fresh, labels[rank], lane.rank.value,
              hidden_streams(job_, lane.rank.value, placement.seats[rank].local_rank));
    ++rank;
  }
}

std::vector<std::string> Console::last_words(WorkerId worker) const {
  const auto it = lanes_.find(worker);
  return it == lanes_.end() ? std::vector<std::string>{} : mux_.last_words(it->second.number);
}

void Console::forget_words(WorkerId worker) {
  if (const auto it = lanes_.find(worker); it != lanes_.end()) mux_.forget_words(it->second.number);
}

std::vector<std::string> Console::last_output(WorkerId worker) const {
  const auto it = lanes_.find(worker);
  return it == lanes_.end() ? std::vector<std::string>{} : mux_.last_output(it->second.number);
}

bool Console::raised(WorkerId worker) const {
  const auto it = lanes_.find(worker);
  return it != lanes_.end() && mux_.raised(it->second.number);
}

std::string Console::keep_stack(Rank rank, const std::string& stack) {
  return job_.output_directory.empty() ? std::string{} : ", stack in " + logs_.keep_stack(rank, stack);
}

void Console::show_stack(Rank rank, const std::string& stack) {
  const auto lines = split(trim(stack), '\n');
  const auto shown = std::min(lines.size(), most_stack_lines);
  for (std::size_t i = 0; i < shown; ++i) say(fmt::format("    [{}] {}", rank.value, lines[i]));
  if (shown < lines.size())
    say(fmt::format("    [{}] and {} lines more (--output-filename keeps all)", rank.value,
                    lines.size() - shown));
}

Result<void> Console::open_files() {
  if (job_.output_directory.empty()) return {};
  return logs_.open(job_.output_directory, job_.id, max_ranks(job_));
}

// A full disk must not end a training run; it is said once, until it has room again.
void Console::tell_full(const std::string& name, int error) {
  if (error == EBADF)
    return report(
        {fmt::format("trainrun: {0} was closed when trainrun was started: what ranks write to {0} is "
                     "lost",
                     name)});
  report({fmt::format("trainrun: {}: {}; output is dropped until it can be written again", name,
                      errno_text(error))});
}

void Console::worker_output(WorkerId worker, wire::Output stream, std::string_view bytes) {
  const auto it = lanes_.find(worker);
  if (it == lanes_.end()) return;
  const auto& lane = it->second;
  logs_.write(lane.rank, stream, bytes);
  if (asking_ == lane.number) asking_.reset();
  mux_.feed(lane.number, stream, bytes, shown_);
  show(stream, shown_);
  if (const auto rank = mux_.split_rank(); rank && !std::exchange(told_split_, true))
    say(split_line(Rank{*rank}));
  if (mux_.bar_waits() && !bars_.armed()) bars_.arm(io::Loop::now() + bar_interval, [this] { show_bars(); });
  held_up_ = held_up_ || is_behind();
  if (mux_.begun_is_held() && !begun_.armed())
    begun_.arm(io::Loop::now() + begun_interval, [this] { show_begun(); });
  // A question to the user has no newline. Only who has the terminal's stdin can ask one.
  const bool asks =
      job_.stdin_to == StdinTo::all ||
      (job_.stdin_to == StdinTo::rank && lane.rank.value == static_cast<std::uint32_t>(job_.stdin_rank));
  if (terminal_.in && asks)
    prompt_.arm(io::Loop::now() + prompt_pause, [this, number = lane.number] { show_prompt(number); });
}

void Console::show_bars() {
  std::string out, err;
  mux_.redraw(out, err);
  show(wire::Output::out, out);
  show(wire::Output::err, err);
}

// A worker that was stopped in the middle of its line, since nobody reads, has not paused there.
void Console::show_begun() {
  std::string out, err;
  if (std::exchange(held_up_, is_behind()))
    mux_.wait_for_begun();
  else
    mux_.show_begun(out, err);
  show(wire::Output::out, out);
  show(wire::Output::err, err);
  if (mux_.begun_is_held()) begun_.arm(io::Loop::now() + begun_interval, [this] { show_begun(); });
}

void Console::show_prompt(std::uint32_t lane) {
  std::string out, err;
  mux_.prompt(lane, out, err);
  if (!out.empty() || !err.empty()) asking_ = lane;
  show(wire::Output::out, out);
  show(wire::Output::err, err);
}

void Console::worker_finished(WorkerId worker) {
  const auto it = lanes_.find(worker);
  if (it == lanes_.end()) return;
  it->second.finished = true;
  if (asking_ == it->second.number) asking_.reset();
  for (const auto stream : {wire::Output::out, wire::Output::err}) {
    std::string shown;
    mux_.finish(it->second.number, stream, shown);
    show(stream, shown);
  }
}

void Console::show(wire::Output stream, std::string& text) {
  if (text.empty()) return;
  last_output_ = io::Loop::now();
  if (stream == wire::Output::err || same_terminal_ || !other_err_) {
    wipe();
    line_ended_ = text.back() == '\n';
  }
  (stream == wire::Output::err ? err_ : out_).take(text);
  // Ranks may write to stderr alone, as Python's logging does: then no write finds that stdout has no reader
  // either.
  if (stream == wire::Output::err && err_.closed() && nobody_reads_ && out_.has_no_reader())
    std::exchange(nobody_reads_, nullptr)();
}

void Console::say(const std::string& line) {
  if (job_.quiet) return;
  report({"trainrun: " + line});
}

void Console::report(const std::vector<std::string>& lines) {
  if (!err_.usable() || lines.empty()) return;  // the loss of what is no output of the ranks is not counted
  wipe();
  std::string out, err;
  mux_.end_open_lines(out, err);
  out_.write(out);
  const bool ended = !err.empty() || (!out.empty() && !other_err_);
  err_.write(!std::exchange(line_ended_, true) && !ended ? "\n" : err);
  for (const auto& line : lines) err_.write(our_line(line));
}

void Console::progress(const core::JobMachine::Progress& progress) { progress_ = progress; }

void Console::tick() {
  const auto now = io::Loop::now();
  if (live_) {
    draw();
  } else if (now - last_output_ >= long_silence) {
    last_output_ = now;
    say(status_line(progress_, now, now - started_, job_.grace));
  }
  timer_.arm(live_ ? now + redraw_interval : last_output_ + long_silence, [this] { tick(); });
}

void Console::draw() {
  const auto elapsed = io::Loop::now() - started_;
  if (elapsed < redraw_interval || waiting_for_readers() > 0) return;  // a short job needs no status line
  if (!line_ended_ || asking_)
    return;  // a worker's prompt or bar stands there, or what is typed for an answer
  if (!in_foreground()) {
    drawn_ = false;  // the shell has written since
    return;
  }
  const auto line = status_line(progress_, io::Loop::now(), elapsed, job_.grace);
  // A line that is wrapped cannot be wiped.
  err_.write(fmt::format("\r\x1b[K\x1b[2m{}\x1b[0m", first_bytes(line, columns_of(STDERR_FILENO) - 1)));
  drawn_ = true;
}

void Console::wipe() {
  if (!std::exchange(drawn_, false) || !in_foreground()) return;
  err_.write("\r\x1b[K");
}

std::size_t Console::waiting_for_readers() const {
  return out_.backlog() + (other_err_ ? other_err_->backlog() : 0);
}

bool Console::is_behind() const { return backlog() > most_backlog; }

bool Console::takes_more() {
  const bool behind = is_behind();
  refused_ = refused_ || behind;
  return !behind;
}

// Whichever writer it was: what several of them have not taken yet counts together.
void Console::moved() {
  if (refused_ && !is_behind()) {
    refused_ = false;
    drained_();
  }
  farewell_.look();
}

std::size_t Console::backlog() const { return waiting_for_readers() + files_.backlog(); }

}  // namespace trainrun::output
