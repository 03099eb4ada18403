// The last output of all: who is waited for, and what of it was lost.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/output/console.h"
#include "launcher/output/our_lines.h"

namespace trainrun::output {
namespace {

constexpr Duration reader_limit = std::chrono::hours(1);  // somebody may be reading the first page
constexpr Duration a_moment = seconds(1);  // that a reader or disk which is well needs; --grace may be zero
constexpr std::size_t most_losses_named = 4;

}  // namespace

void Console::close(std::function<std::string()> verdict, std::function<void()> shown) {
  verdict_ = std::move(verdict);
  timer_.disarm();
  bars_.disarm();
  begun_.disarm();
  prompt_.disarm();
  // What something left behind wrote after its worker's end, without a newline; in the order of the ranks.
  std::map<Rank, WorkerId> by_rank;
  for (const auto& [worker, lane] : lanes_) by_rank[lane.rank] = worker;
  for (const auto& [rank, worker] : by_rank) worker_finished(worker);
  wipe();
  logs_.close();
  wait_for_readers(std::move(shown));
}

void Console::wait_for_readers(std::function<void()> over) {
  const bool in_vain = unread_ > 0 || left_.bytes > 0;  // those who took nothing before take no report either
  std::vector<Farewell::Sink> sinks;
  for (auto* writer : {&out_, other_err_ ? &*other_err_ : nullptr}) {
    if (writer != nullptr)
      sinks.push_back({[writer] { return writer->idle() ? std::nullopt : std::optional(writer->backlog()); },
                       [this, writer] { unread_ += writer->backlog(), writer->give_up(); },
                       in_vain ? a_moment : reader_limit,
                       [this](std::size_t bytes, Duration at_most) {
                         const auto line = unread_line(bytes, at_most);
                         verdict_ ? report({std::exchange(verdict_, nullptr)() + "; " + line}) : say(line);
                       },
                       verdict_ ? seconds(5) : seconds(60)});
  }
  sinks.push_back({[this] { return files_.idle() ? std::nullopt : std::optional(files_.backlog()); },
                   [this] { left_ = left_.bytes == 0 ? files_.give_up() : (files_.give_up(), left_); },
                   in_vain ? a_moment : std::max(job_.grace, a_moment)});
  farewell_.start(std::move(sinks), std::move(over));
  if (end_by_) end_by(*end_by_);
}

void Console::end_by(Instant until, std::string_view why) {
  if (!end_by_ || until < *end_by_) {
    end_by_ = until;
    why_in_time_ = why;
  }
  farewell_.limit(std::max(*end_by_, io::Loop::now() + a_moment));
}

std::vector<std::string> Console::lost_output() const {
  const auto bytes = out_.lost() + (other_err_ ? other_err_->lost() : 0) + files_.lost();
  if (bytes == 0) return {};
  auto line = fmt::format("trainrun: {} of output could not be written",
                          counted(static_cast<std::int64_t>(bytes), "byte"));
  const auto waited = [this](Duration time_limit, std::string_view why) {
    const bool cut_off = end_by_ && *end_by_ <= io::Loop::now();  // else its own time has passed
    return cut_off ? why_in_time_ : fmt::format(" for {}{}", format_duration(time_limit), why);
  };
  if (reader_left()) line += ": nobody reads it any more (as with | head)";
  if (left_.bytes > 0)
    line += fmt::format(": {} took nothing more{}", left_.name,
                        waited(std::max(job_.grace, a_moment), " (--grace)"));
  if (unread_ > 0) line += ": nobody read it" + waited(reader_limit, "");
  std::vector<std::string> lines{std::move(line)};
  const auto losses = files_.losses();
  const auto named = std::min(losses.size(), most_losses_named);
  for (std::size_t i = 0; i < named; ++i)
    lines.push_back(fmt::format("  lost        {} of {}",
                                counted(static_cast<std::int64_t>(losses[i].bytes), "byte"), losses[i].name));
  if (named < losses.size())
    lines.push_back(fmt::format("              and some of {} more",
                                counted(static_cast<std::int64_t>(losses.size() - named), "file")));
  return lines;
}

void Console::last_report(const std::vector<std::string>& lines, std::function<void()> over) {
  verdict_ = nullptr;  // it is among them
  report(lines);
  wait_for_readers(std::move(over));
}

}  // namespace trainrun::output
