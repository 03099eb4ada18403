#include "launcher/output/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/output/status_line.h"

namespace trainrun::output {
namespace {

constexpr Duration redraw_interval = milliseconds(200);
constexpr Duration bar_interval = seconds(1);
constexpr Duration prompt_pause = milliseconds(200);
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

MuxStyle style_of(const JobSpec& job, const TerminalFacts& terminal) {
  MuxStyle style;
  style.terminal_out = terminal.out;
  style.terminal_err = terminal.err;
  style.colour = terminal.colour;
  style.timestamp = job.timestamp;
  return style;
}

// The shell has the terminal while we are in the background: nothing may be drawn over its prompt. A terminal
// that is not our session's has no foreground to ask for (-1).
bool in_foreground() {
  const auto group = ::tcgetpgrp(STDERR_FILENO);
  return group < 0 || group == ::getpgrp();
}

// The largest world that the job may have.
int most_ranks(const JobSpec& job) { return std::max(job.world_size(), job.elastic.max_np); }

}  // namespace

Console::Console(io::Loop& loop, const JobSpec& job, TerminalFacts terminal, Handlers handlers)
    : job_(job),
      mux_(style_of(job, terminal), wall_clock),
      // A full disk must not end a training run; it is said once, until it has room again.
      out_(loop, STDOUT_FILENO,
           {handlers.drained, handlers.stdout_closed,
            [this](int error) {
              say(fmt::format("stdout: {}; output is dropped until it can be written again",
                              errno_text(error)));
            }}),
      err_(loop, STDERR_FILENO, {handlers.drained, nullptr}),
      terminal_(terminal),
      timer_(loop),
      bars_(loop),
      prompt_(loop),
      live_(terminal.redraw && !job.quiet),
      started_(io::Loop::now()),
      last_output_(started_) {
  same_terminal_ = terminal.out && terminal.err;
  if (!job.quiet) tick();
}

Console::~Console() = default;

void Console::begin_world(const core::Placement& placement, const std::vector<WorkerId>& workers) {
  std::vector<std::string> hosts;
  for (const auto& seat : placement.seats) hosts.push_back(job_.hosts.hosts[seat.host.value].name);
  const auto tag = job_.tag != Tag::automatic ? job_.tag : (most_ranks(job_) > 1 ? Tag::rank : Tag::none);
  const auto labels =
      tag == Tag::none ? std::vector<std::string>(hosts.size()) : make_labels(hosts, tag == Tag::host);
  const std::set<WorkerId> present(workers.begin(), workers.end());
  for (auto it = lanes_.begin(); it != lanes_.end();) {
    if (present.contains(it->first) || !it->second.finished) {
      ++it;
      continue;
    }
    free_lanes_.push_back(it->second.number);
    it = lanes_.erase(it);
  }
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    auto [it, fresh] = lanes_.try_emplace(workers[rank]);
    auto& lane = it->second;
    if (fresh && free_lanes_.empty()) {
      lane.number = lane_count_++;
    } else if (fresh) {
      lane.number = free_lanes_.back();
      free_lanes_.pop_back();
    }
    lane.rank = Rank{static_cast<std::uint32_t>(rank)};
    const auto& only = job_.only_ranks;
    const bool hidden =
        !only.empty() && std::find(only.begin(), only.end(), static_cast<int>(rank)) == only.end();
    mux_.open(lane.number, fresh, labels[rank], static_cast<std::uint32_t>(rank), hidden);
    empty_files(lane.rank);
  }
}

std::vector<std::string> Console::last_words(WorkerId worker) const {
  const auto it = lanes_.find(worker);
  return it == lanes_.end() ? std::vector<std::string>{} : mux_.last_words(it->second.number);
}

std::string Console::keep_stack(Rank rank, const std::string& stack) {
  if (job_.output_directory.empty()) {
    const auto lines = split(stack, '\n');
    const auto shown = std::min(lines.size(), most_stack_lines);
    for (std::size_t i = 0; i < shown; ++i)
      say(fmt::format("    [{}] {}", rank.value, neutralised(lines[i])));
    if (shown < lines.size())
      say(fmt::format("    [{}] and {} lines more (--output-filename keeps all)", rank.value,
                      lines.size() - shown));
    return {};
  }
  const auto path = fmt::format("{}/rank.{}/stack", job_.output_directory, rank.value);
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd || !write_all(fd.get(), stack + "\n")) return {};
  return ", stack in " + path;
}

Result<void> Console::open_files() {
  if (job_.output_directory.empty()) return {};
  const auto refuse = [](const std::string& path) {
    return fail(Code::config,
                fmt::format("--output-filename: cannot make {}: {}", quoted(path, 300), errno_text(errno)),
                "choose a directory that you may write to");
  };
  const auto make = [](const std::string& path) {
    return ::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST;
  };
  if (!make(job_.output_directory)) return refuse(job_.output_directory);
  for (int rank = 0; rank < most_ranks(job_); ++rank) {
    const auto directory = fmt::format("{}/rank.{}", job_.output_directory, rank);
    if (!make(directory)) return refuse(directory);
    for (const auto stream : {wire::Output::out, wire::Output::err}) {
      const auto path = directory + (stream == wire::Output::out ? "/stdout" : "/stderr");
      Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
      if (!fd) return refuse(path);
      files_[{static_cast<std::uint32_t>(rank), stream}].fd = std::move(fd);
    }
  }
  return {};
}

void Console::empty_files(Rank rank) {
  for (const auto stream : {wire::Output::out, wire::Output::err}) {
    const auto it = files_.find({rank.value, stream});
    if (it == files_.end() || std::exchange(it->second.ours, true)) continue;
    [[maybe_unused]] const int refused = ::ftruncate(it->second.fd.get(), 0);  // it is no file, as /dev/null
  }
}

void Console::file_output(Rank rank, wire::Output stream, std::string_view bytes) {
  const auto it = files_.find({rank.value, stream});
  if (it == files_.end() || files_failed_) return;
  const auto written = write_all(it->second.fd.get(), bytes);
  if (written) return;
  files_failed_ = true;  // a full disk must not end a training run; it is said once
  say(fmt::format("--output-filename: {}; the files end here, the screen goes on", written.error().message));
}

void Console::worker_output(WorkerId worker, wire::Output stream, std::string_view bytes) {
  const auto it = lanes_.find(worker);
  if (it == lanes_.end()) return;
  const auto& lane = it->second;
  file_output(lane.rank, stream, bytes);
  std::string shown;
  mux_.feed(lane.number, stream, bytes, shown);
  show(stream, shown);
  if (mux_.bar_waits() && !bars_.armed()) bars_.arm(io::Loop::now() + bar_interval, [this] { show_bars(); });
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

void Console::show_prompt(std::uint32_t lane) {
  std::string out, err;
  mux_.prompt(lane, out, err);
  show(wire::Output::out, out);
  show(wire::Output::err, err);
}

void Console::worker_finished(WorkerId worker) {
  const auto it = lanes_.find(worker);
  if (it == lanes_.end()) return;
  it->second.finished = true;
  for (const auto stream : {wire::Output::out, wire::Output::err}) {
    std::string shown;
    mux_.finish(it->second.number, stream, shown);
    show(stream, shown);
  }
}

void Console::show(wire::Output stream, const std::string& text) {
  if (text.empty()) return;
  last_output_ = io::Loop::now();
  if (stream == wire::Output::err || same_terminal_) {
    wipe();
    line_ended_ = text.back() == '\n';
  }
  (stream == wire::Output::err ? err_ : out_).write(text);
}

void Console::say(const std::string& line) {
  if (job_.quiet) return;
  report({"trainrun: " + line});
}

void Console::report(const std::vector<std::string>& lines) {
  wipe();
  if (!lines.empty() && !std::exchange(line_ended_, true) && terminal_.err) err_.write("\n");
  for (const auto& line : lines) err_.write(line + "\n");
}

void Console::progress(const core::JobMachine::Progress& progress) { progress_ = progress; }

void Console::tick() {
  const auto now = io::Loop::now();
  if (live_) {
    draw();
  } else if (now - last_output_ >= long_silence) {
    last_output_ = now;
    say(fmt::format("still running: {} of {}, {}", progress_.alive, counted(progress_.ranks, "rank"),
                    format_duration(now - started_)));
  }
  timer_.arm(live_ ? now + redraw_interval : last_output_ + long_silence, [this] { tick(); });
}

void Console::draw() {
  const auto elapsed = io::Loop::now() - started_;
  if (elapsed < redraw_interval || backlog() > 0) return;  // a short job needs no status line
  if (!line_ended_) return;                                // a worker's prompt or bar stands there
  if (!in_foreground()) {
    drawn_ = false;  // the shell has written since
    return;
  }
  err_.write(
      fmt::format("\r\x1b[K\x1b[2m{}\x1b[0m", status_line(progress_, io::Loop::now(), elapsed, job_.grace)));
  drawn_ = true;
}

void Console::wipe() {
  if (!std::exchange(drawn_, false) || !in_foreground()) return;
  err_.write("\r\x1b[K");
}

std::size_t Console::backlog() const { return out_.backlog() + err_.backlog(); }

void Console::close() {
  timer_.disarm();
  bars_.disarm();
  prompt_.disarm();
  // What something left behind wrote after its worker's end, without a newline; in the order of the ranks.
  std::map<Rank, WorkerId> by_rank;
  for (const auto& [worker, lane] : lanes_) by_rank[lane.rank] = worker;
  for (const auto& [rank, worker] : by_rank) worker_finished(worker);
  wipe();
  // The workers are gone; a reader that is merely slow still gets everything, one that sleeps does not hold
  // us for ever.
  out_.flush(seconds(60));
  err_.flush(seconds(60));
}

}  // namespace trainrun::output
