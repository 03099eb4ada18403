#include "cli/ctl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "cli/ctl_text.h"
#include "cli/ctl_words.h"
#include "cli/subcommands.h"
#include "launcher/base/strings.h"
#include "launcher/control/client.h"
#include "launcher/control/socket_place.h"
#include "launcher/output/our_lines.h"

namespace trainrun::cli {
namespace {

using control::RunningJob;
using Kind = control::Command::Kind;

constexpr Duration time_limit = seconds(10);  // for an answer to a command
constexpr Duration list_limit = seconds(2);   // for a job that is only listed
constexpr Duration dial_limit = seconds(5), look_again = milliseconds(100);

std::string local_time(std::int64_t since_1970) {
  const auto when = static_cast<std::time_t>(since_1970);
  std::tm parts{};
  char text[32] = {};
  if (since_1970 <= 0 || ::localtime_r(&when, &parts) == nullptr) return "-";
  return {text, std::strftime(text, sizeof text, "%F %T", &parts)};
}

std::vector<ListedJob> describe(const std::vector<RunningJob>& jobs) {
  std::vector<ListedJob> listed;
  for (const auto& job : jobs) {
    ListedJob row{job.id};
    const auto reply = control::ask(job.socket, control::to_line(control::VersionQuestion{}), list_limit);
    if (!reply && reply.error().code == Code::not_found) continue;  // it has just ended
    if (reply) {
      if (auto identity = control::read_identity(*reply)) row.identity = std::move(*identity);
    }
    listed.push_back(std::move(row));
  }
  return listed;
}

// No id: `trainrun ... & trainrun ctl --job $!`.
std::vector<RunningJob> of_launcher(const control::RunningJobs& running, const std::string& number) {
  const auto pid = parse_unsigned<std::uint32_t>(number);
  if (!pid) return {};
  for (const auto& job : running.jobs)
    if (control::listener_of(job.socket, list_limit) == static_cast<pid_t>(*pid)) return {job};
  return {};
}

// Those that are meant, the id given in full before others that begin so.
std::vector<RunningJob> fitting(const control::RunningJobs& running, const std::string& prefix) {
  std::vector<RunningJob> found;
  for (const auto& job : running.jobs) {
    if (job.id == prefix) return {job};
    if (job.id.starts_with(prefix)) found.push_back(job);
  }
  return found.empty() ? of_launcher(running, prefix) : found;
}

Error nobody(const control::RunningJobs& running, const std::string& prefix) {
  std::string message = prefix.empty()
                            ? "no running job of yours was started on this host"
                            : fmt::format("no job with the id, or launcher, {} runs on this host", prefix);
  for (const auto& problem : running.problems) message += fmt::format("; {}", problem);
  return {Code::unreachable, std::move(message),
          running.jobs.empty()
              ? "ctl reaches a job from its launcher's host, as the job's user, with the job's "
                "XDG_RUNTIME_DIR, and not in its first moments"
              : "trainrun ctl list shows the jobs that are there"};
}

std::string json_rows(const std::vector<ListedJob>& jobs) {
  std::vector<std::string> rows;
  for (const auto& job : jobs)
    rows.push_back(job.identity ? control::to_json(*job.identity)
                                : fmt::format(R"({{"ok":false,"job":"{}"}})", job.id));
  return fmt::format("[{}]", fmt::join(rows, ","));
}

CtlAnswer several(const std::vector<RunningJob>& meant, const std::string& prefix, bool json) {
  const Error error{Code::usage,
                    fmt::format("{} jobs run here{}, so --job must say which", meant.size(),
                                prefix.empty() ? "" : fmt::format(" whose id begins with {}", prefix)),
                    fmt::format("write trainrun ctl --job {}, and the same command", meant.front().id)};
  const auto jobs = describe(meant);
  CtlAnswer answer{{}, exit_code_of(error.code)};
  if (json) {
    auto line = control::error_reply(error);
    line.insert(line.rfind('}'), fmt::format(",\"jobs\":{}", json_rows(jobs)));
    answer.text = line + "\n";
    return answer;
  }
  auto lines = output::lines_of(error);
  const auto text = jobs_text(jobs, local_time);
  const auto table = split(trim(text), '\n');
  lines.insert(std::next(lines.begin()), table.begin(), table.end());
  answer.complaint = std::move(lines);
  return answer;
}

Result<CtlAnswer> list(const control::RunningJobs& running, bool json) {
  const auto jobs = describe(running.jobs);
  if (json) return CtlAnswer{fmt::format("{{\"ok\":true,\"jobs\":{}}}\n", json_rows(jobs))};
  if (!jobs.empty()) return CtlAnswer{jobs_text(jobs, local_time)};
  std::string text = "no running job of yours was started on this host, with this XDG_RUNTIME_DIR\n";
  for (const auto& problem : running.problems) text += problem + "\n";
  return CtlAnswer{std::move(text)};
}

Result<CtlAnswer> in_words(const control::Command& command, const std::string& reply) {
  if (command.kind == Kind::world) {
    const auto world = control::read_world(reply);
    if (!world) return tl::unexpected(world.error());
    return CtlAnswer{world_text(*world)};
  }
  auto text = control::read_reply(reply);
  if (!text) return tl::unexpected(text.error());
  return CtlAnswer{text->empty() ? std::string{} : *text + "\n"};
}

}  // namespace

std::vector<std::string> ctl_places(const std::vector<EnvVar>& environment) {
  std::string runtime;
  for (const auto& [name, value] : environment) {
    if (name == "XDG_RUNTIME_DIR") runtime = value;
  }
  return control::places_to_look(runtime, ::geteuid());
}

namespace {

// The reply to `add` comes before the host is dialled: its first attempt is waited for, so that a slip in the
// name is seen at once.
std::string followed_up(const control::Command& command, const std::string& socket, std::string reply) {
  const auto said = control::read_reply(reply);
  if (command.kind != Kind::add_host || !said) return reply;
  const auto until = std::chrono::steady_clock::now() + dial_limit;
  std::optional<std::string> more;
  while (!more) {
    const auto answer = control::ask(socket, control::to_line(control::Command{}), time_limit);
    if (!answer) return reply;  // the job has ended meanwhile
    const auto world = control::read_world(*answer);
    if (!world) return reply;
    more = after_adding(*world, command.host.name);
    if (!more && std::chrono::steady_clock::now() >= until)
      more = fmt::format("; not reached yet after {}", format_duration(dial_limit));
    if (!more) std::this_thread::sleep_for(look_again);
  }
  return more->empty() ? reply : control::ok_reply(*said + *more);
}

Result<CtlAnswer> answer_to(const CtlWords& wanted, const std::vector<std::string>& places) {
  if (wanted.action == CtlWords::Action::help) return CtlAnswer{ctl_help()};
  const auto running = control::find_jobs(places);
  if (wanted.action == CtlWords::Action::list) return list(running, wanted.json);
  const auto meant = fitting(running, wanted.job);
  if (meant.empty()) return tl::unexpected(nobody(running, wanted.job));
  if (meant.size() > 1) return several(meant, wanted.job, wanted.json);
  const auto* job = &meant.front();
  auto reply = control::ask(job->socket, control::to_line(wanted.command), time_limit);
  if (reply) reply = followed_up(wanted.command, job->socket, std::move(*reply));
  if (!reply) {
    auto error = reply.error();
    error.message = fmt::format("job {}: {}", job->id, error.message);
    if (error.code == Code::not_found) error.code = Code::unreachable;  // 127 would speak of a program
    return tl::unexpected(error);
  }
  if (!wanted.json) return in_words(wanted.command, *reply);
  const auto good = control::read_reply(*reply);
  if (!good && good.error().code == Code::protocol) return tl::unexpected(good.error());
  return CtlAnswer{*reply + "\n", good ? ExitCode::success : exit_code_of(good.error().code)};
}

}  // namespace

Result<CtlAnswer> ctl_answer(const std::vector<std::string>& words, const std::vector<std::string>& places) {
  const auto wanted = parse_ctl(words);
  auto answer = wanted ? answer_to(*wanted, places) : tl::unexpected(wanted.error());
  const bool json = wanted ? wanted->json : std::find(words.begin(), words.end(), "--json") != words.end();
  if (answer || !json) return answer;
  // A program that asked for JSON gets JSON, also when nobody can be asked.
  return CtlAnswer{control::error_reply(answer.error()) + "\n", exit_code_of(answer.error().code)};
}

}  // namespace trainrun::cli
