#include "launcher/output/event_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "launcher/output/words.h"

namespace trainrun::output {
namespace {

using Json = nlohmann::ordered_json;

// "worker failed" -> "worker_failed"; a flag is a name already.
std::string as_name(std::string_view words) {
  std::string out(words);
  if (out.starts_with("--")) return out;
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return out;
}

double rounded_seconds(Duration duration) {
  return static_cast<double>(std::chrono::duration_cast<milliseconds>(duration).count()) / 1000;
}

// Puts the fields of a record into an object. What is not there is left out.
class JsonFields {
 public:
  explicit JsonFields(Json& object) : object_(object) {}

  template <class T>
  void operator()(std::string_view name, const T& value) {
    if (auto json = of(value); !json.is_null()) object_[std::string(name)] = std::move(json);
  }

  template <class T>
  static Json of(const T& value) {
    if constexpr (std::integral<T>) {
      return value;
    } else if constexpr (std::is_enum_v<T>) {
      using core::to_string;
      return as_name(to_string(value));
    } else if constexpr (core::NamedVariant<T>) {
      return of(core::alternatives(value));
    } else {
      Json object = Json::object();
      if constexpr (core::Record<T>) object["kind"] = as_name(T::record_name);
      JsonFields fields(object);
      core::fields_of(const_cast<T&>(value), fields);
      return object;
    }
  }
  template <class Tag>
  static Json of(const Id<Tag>& id) {
    return id.value;
  }
  static Json of(const std::string& text) { return text; }
  static Json of(Duration duration) { return rounded_seconds(duration); }
  static Json of(const ExitStatus& status) {
    Json object{{"kind", as_name(core::to_string(status.kind))}, {"exit_code", status.exit_code()}};
    if (status.kind == ExitStatus::Kind::killed) {
      object["signal"] = signal_name(status.number);
      object["core_dumped"] = status.core_dumped;
    }
    object["text"] = status.describe();
    return object;
  }
  template <class T>
  static Json of(const std::vector<T>& items) {
    Json array = Json::array();
    for (const auto& item : items) array.push_back(of(item));
    return array;
  }
  template <class T>
  static Json of(const std::optional<T>& some) {
    return some ? of(*some) : Json();
  }
  template <class... Ts>
  static Json of(const std::variant<Ts...>& one) {
    return std::visit([](const auto& it) { return of(it); }, one);
  }

 private:
  Json& object_;
};

Json head(const Moment& moment, std::string_view event) {
  return {
      {"time", moment.time}, {"since_start", rounded_seconds(moment.since_start)}, {"event", as_name(event)}};
}

// Text of programs may be no UTF-8.
std::string line_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

core::HostRef named(const JobSpec& job, HostIndex host) {
  return {host, job.hosts.hosts.at(host.value).name};
}

core::RankRef who(const JobSpec& job, const core::Failure& failure) {
  return {failure.rank, named(job, failure.host), failure.worker, failure.pid};
}

std::optional<core::Cause> cause_of(const JobSpec& job, const core::Outcome& outcome) {
  using Kind = core::Outcome::Kind;
  namespace cause = core::cause;
  switch (outcome.kind) {
    case Kind::success:
    case Kind::hosts_failed:
      return std::nullopt;
    case Kind::worker_failed:
      if (!outcome.cause) return cause::SomeRankFailed{};
      return cause::RankFailed{who(job, *outcome.cause), outcome.cause->status, outcome.cause->last_words};
    case Kind::host_lost: {
      cause::RanksLost lost{named(job, outcome.host), outcome.ranks, {}};
      if (outcome.why) lost.why = cause::LinkLost{words(*outcome.why)};
      return lost;
    }
    case Kind::user_signal:
      return cause::EndAsked{outcome.signal, outcome.by_ctl};
    case Kind::output_closed:
      return cause::OutputClosed{};
    case Kind::timed_out:
      return cause::TimeLimit{job.timeout.value_or(Duration::zero())};
    case Kind::port_refused:
    case Kind::mpi_mixed:
    case Kind::hung:
    case Kind::exchange_lost:
    case Kind::unfinished:
    case Kind::no_hosts:
      break;
  }
  return outcome.why;
}

}  // namespace

std::string utc_time(Duration since_epoch) {
  const auto ms = std::chrono::duration_cast<milliseconds>(since_epoch).count();
  const std::time_t whole = static_cast<std::time_t>(ms / 1000);
  tm at{};
  ::gmtime_r(&whole, &at);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", at.tm_year + 1900, at.tm_mon + 1,
                     at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec, ms % 1000);
}

std::string start_line(const Moment& moment, const JobSpec& job, const std::string& version, int pid) {
  Json line = head(moment, "job started");
  line["schema"] = events_schema;
  line["version"] = version;
  line["job"] = job.id;
  line["pid"] = pid;
  line["ranks"] = job.world_size();
  line["elastic"] = job.elastic.enabled();
  line["hosts"] = Json::array();
  for (const auto& host : job.hosts.hosts) line["hosts"].push_back(host.name);
  return line_of(line);
}

std::string event_line(const Moment& moment, Generation generation, const core::Notice& notice) {
  return std::visit(
      [&](const auto& it) {
        Json line = head(moment, it.record_name);
        line["generation"] = generation.value;  // its own, if it has one, takes the place
        JsonFields fields(line);
        core::fields_of(const_cast<std::remove_cvref_t<decltype(it)>&>(it), fields);
        line["text"] = fmt::format("{}", fmt::join(words(notice), "\n"));
        return line_of(line);
      },
      notice);
}

std::string end_line(const Moment& moment, const JobSpec& job, const core::Outcome& outcome, int exit_code,
                     const std::vector<std::string>& report) {
  Json line = head(moment, "job ended");
  line["generation"] = outcome.generation.value;
  line["exit_code"] = exit_code;
  const bool lost = outcome.kind == core::Outcome::Kind::success && exit_code != 0;
  line["outcome"] = lost ? "output_lost" : as_name(core::to_string(outcome.kind));
  JsonFields fields(line);
  fields("cause", cause_of(job, outcome));
  if (outcome.kind == core::Outcome::Kind::worker_failed) {
    line["also_failed"] = Json::array();
    for (const auto& it : outcome.also_failed)
      line["also_failed"].push_back(
          JsonFields::of(core::cause::RankFailed{who(job, it), it.status, it.last_words}));
    line["finished"] = outcome.finished;
    fields("reported", outcome.why);
  }
  if (!outcome.host_errors.empty()) {
    std::vector<core::HostFailure> failures;
    for (const auto& [host, error] : outcome.host_errors) failures.push_back({named(job, host), error});
    fields("failures", failures);
  }
  fields("others", outcome.others);
  fields("unfinished", outcome.unfinished);
  fields("leftovers", outcome.leftovers);
  fields("restarts", outcome.restarts);
  fields("out_of_restarts", outcome.out_of_restarts);
  fields("lost_time", outcome.lost_time);
  fields("text", fmt::format("{}", fmt::join(report, "\n")));
  return line_of(line);
}

std::string dropped_line(std::size_t lines) {
  Json line;
  line["dropped"] = lines;
  return line_of(line);
}

}  // namespace trainrun::output
