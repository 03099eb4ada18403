// The end of a job: what its ranks wrote last is shown, then the report. The loop goes on, so a signal or
// --timeout is heard while a slow reader or disk is waited for.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "launcher/base/build_id.h"
#include "launcher/base/strings.h"
#include "launcher/controller.h"
#include "launcher/io/clock.h"
#include "launcher/output/our_lines.h"
#include "launcher/output/report.h"

namespace trainrun {
namespace {

constexpr Duration longest_wait_for_side_file = seconds(5);
// That a file which is well needs, also of somebody in a hurry, and of somebody who leaves at once.
constexpr Duration a_moment = seconds(1), at_once = milliseconds(250);

std::string wall_clock_of(Instant at) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto then =
      std::chrono::nanoseconds(static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec) -
      (io::real_now() - io::real_at(at));
  const std::time_t whole = static_cast<std::time_t>(then.count() / 1'000'000'000);
  tm parts{};
  ::localtime_r(&whole, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                     then.count() / 1'000'000 % 1000);
}

}  // namespace

void Controller::user_signal(int number, bool by_ctl) {
  ++user_signals_;
  asked_to_end();
  if (!reported_) event(core::UserSignal{number, by_ctl});
}

// Once asked the user waits for --grace, as for the ranks. Asked again, nothing is waited for.
void Controller::asked_to_end() {
  const auto now = io::Loop::now();
  if (!asked_to_end_) asked_to_end_ = now;
  if (finish_) console_.end_by(user_signals_ > 1 ? now : *asked_to_end_ + job_.grace);
  if (user_signals_ < 2) return;
  if (events_) events_->end_by(end_of_side_files());
  if (journal_) journal_->end_by(end_of_side_files());
}

void Controller::perform(const core::Finish& order) {
  const bool again = finish_.has_value();  // while output waits to be read
  finish_ = order;
  finished_at_ = io::Loop::now();
  exit_code_ = order.outcome.exit_code;
  if (again) return;
  if (const auto lost = input_.give_back(); lost > 0)
    console_.say(fmt::format("{} of stdin {} read, and no rank took {} (try: --stdin none, or </dev/null)",
                             counted(static_cast<std::int64_t>(lost), "byte"), lost == 1 ? "was" : "were",
                             lost == 1 ? "it" : "them"));
  if (asked_to_end_) {
    asked_to_end();
  } else if (job_deadline_) {
    // Known before, so that a line on what waits tells for how long.
    console_.end_by(finished_at_ + (*job_deadline_ - io::real_now()) + job_.grace,
                    " before --timeout and --grace had passed");
  }
  // A slow reader keeps nobody from hearing that the job has failed.
  const auto early_report = [this] {
    const auto lines = report_lines();
    write_end_event(lines);
    return lines.empty() ? std::string() : lines.front();
  };
  const bool failed = order.outcome.kind != core::Outcome::Kind::success &&
                      order.outcome.kind != core::Outcome::Kind::output_closed;
  console_.close(failed ? early_report : std::function<std::string()>(), [this] { last_report(); });
}

int Controller::ended_by() const {
  if (!finish_ || finish_->outcome.kind != core::Outcome::Kind::user_signal) return 0;
  return finish_->outcome.by_ctl ? 0 : finish_->outcome.signal;
}

std::vector<std::string> Controller::report_lines() {
  auto& outcome = finish_->outcome;
  output::ReportFacts facts;
  if (outcome.cause) {
    facts.last_words = console_.last_words(outcome.cause->worker);
    if (!facts.last_words.empty()) outcome.cause->last_words = facts.last_words.back();  // all of it has come
    facts.last_output = console_.last_output(outcome.cause->worker);
    facts.raised = console_.raised(outcome.cause->worker);
    facts.wall_clock = wall_clock_of(outcome.cause->at);
    const auto recorded = recorded_.find(outcome.cause->worker);
    if (recorded != recorded_.end()) facts.recorded = recorded->second;
  }
  facts.this_host = outcome.kind == core::Outcome::Kind::host_lost && fleet_.is_local(outcome.host);
  return output::report_lines(job_, outcome, facts);
}

void Controller::last_report() {
  reported_ = true;
  auto& outcome = finish_->outcome;
  const auto waited = io::Loop::now() - finished_at_;
  outcome.after += outcome.kind == core::Outcome::Kind::user_signal ? waited : Duration::zero();
  outcome.took += waited;
  auto lines = report_lines();
  if (const auto lost = console_.lost_output(); !lost.empty()) {
    exit_code_ = with_output_lost(exit_code_, console_.reader_left());
    // Of a job that was ended for it the report tells that already.
    if (outcome.kind != core::Outcome::Kind::output_closed)
      lines.insert(lines.begin(), lost.begin(), lost.end());
  }
  console_.last_report(lines, [this, lines] { end_events(lines); });
}

// The last line tells how the job ended. Who reads it is not waited for as long as who reads the output; that
// it was not taken may be our own last line.
void Controller::end_events(const std::vector<std::string>& report) {
  write_end_event(report);
  if (!events_) return end_journal();
  events_->close(end_of_side_files(), [this] { end_journal(); });
}

void Controller::could_not_start(const Error& error) {
  finish_.emplace().outcome.kind = core::Outcome::Kind::unfinished;
  exit_code_ = to_int(exit_code_of(error.code));
  end_events(output::lines_of(error));
}

void Controller::write_end_event(const std::vector<std::string>& report) {
  if (events_ && !std::exchange(told_end_, true))
    events_->write(output::end_line(moment(), job_, finish_->outcome, exit_code_, report));
}

void Controller::end_journal() {
  const auto over = [this] { console_.last_report({}, [this] { loop_.stop(); }); };
  if (journal_) return journal_->close(end_of_side_files(), over);
  events_ ? over() : loop_.stop();
}

Instant Controller::end_of_side_files() const {
  const auto now = io::Loop::now();
  if (user_signals_ > 2) return now + at_once;
  return now + (user_signals_ == 2 ? a_moment : std::min<Duration>(job_.grace, longest_wait_for_side_file));
}

void Controller::write_events(Result<Fd> file) {
  const auto tell = [this](const std::string& line) { console_.report({"trainrun: " + line}); };
  if (!file) return tell(file.error().message);
  events_.emplace(loop_, std::move(*file), job_.events, tell);
  events_->write(output::start_line(moment(), job_, TRAINRUN_VERSION, ::getpid()));
}

void Controller::write_journal(Result<Fd> file) {
  const auto tell = [this](const std::string& line) { console_.report({"trainrun: " + line}); };
  if (!file) return tell(file.error().message);
  journal_.emplace(loop_, std::move(*file), job_.journal, tell);
  journal_->begin({TRAINRUN_VERSION, build_id(), moment().time, began_, job_, machine_.placement()});
}

output::Moment Controller::moment() const {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return {output::utc_time(seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec)),
          io::Loop::now() - began_};
}

}  // namespace trainrun
