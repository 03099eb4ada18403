#include "launcher/discovery/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "host-discovery/poller.h"
#include "launcher/discovery/complaints.h"
#include "launcher/discovery/file_watch.h"
#include "launcher/discovery/question.h"
#include "launcher/discovery/script_run.h"

namespace trainrun {
namespace {

constexpr std::size_t longest_list = 64 * 1024;  // Linux takes 128 KiB in one variable

std::string join(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) {
    if (out.size() + 1 + name.size() > longest_list) break;
    out += out.empty() ? "" : ",";
    out += name;
  }
  return out;
}

void set(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  std::erase_if(environment, [prefix = name + "="](const auto& each) { return each.starts_with(prefix); });
  environment.push_back(name + "=" + value);
}

std::string words_of(const Error& error) {
  return error.hint.empty() ? error.message : fmt::format("{} ({})", error.message, error.hint);
}

}  // namespace

struct Discovery::State : std::enable_shared_from_this<State> {
  State(io::Loop& given_loop, const DiscoverySpec& given_spec, Context given_context,
        std::vector<std::string> given_environment, Handlers given_handlers)
      : loop(given_loop),
        spec(given_spec),
        context(std::move(given_context)),
        environment(std::move(given_environment)),
        handlers(std::move(given_handlers)),
        next(loop),
        slow(loop) {
    set(environment, "TRAINRUN_JOB_ID", context.job_id);
    set(environment, "TRAINRUN_NP", std::to_string(context.np));
    set(environment, "TRAINRUN_MIN_NP", std::to_string(context.min_np));
    set(environment, "TRAINRUN_MAX_NP", std::to_string(context.max_np));
    set_hosts({}, {});
  }

  void set_hosts(const std::vector<std::string>& current, const std::vector<std::string>& failed) {
    set(environment, "TRAINRUN_CURRENT_HOSTS", join(current));
    set(environment, "TRAINRUN_FAILED_HOSTS", join(failed));
  }

  void start() {
    if (started || stopped || spec.kind == DiscoveryKind::none) return;
    started = true;
    auto made = make_question(spec, environment, context.is_this_machine, context.shown_source);
    if (!made) {  // it will not get better: said, and never asked
      stopped = true;
      return loop.post([weak = weak_from_this(), line = "host discovery: " + words_of(made.error())] {
        const auto state = weak.lock();
        const auto tell = state ? state->handlers.say : nullptr;
        if (tell) tell(line);
      });
    }
    question = std::move(*made);
    if (!question.file.empty())
      watch.emplace(loop, question.file, [weak = weak_from_this()] {
        if (const auto state = weak.lock()) state->ask_now();
      });
    ask();
  }

  void ask_now() {
    if (!started || stopped) return;
    if (run) {
      again = true;
    } else {
      ask();
    }
  }

  void ask() {
    next.disarm();
    again = false;
    if (watch) watch->ensure();
    // Looks in quick succession may all meet the same hiccup of whoever answers: together they are one
    // witness.
    const auto now = io::Loop::now();
    witness = !last_witness || now - *last_witness >= spec.interval / 2;
    if (witness) last_witness = now;
    // Without a first answer nothing starts, and a script that hangs looks like a launcher that does.
    if (!answered_once)
      slow.arm(now + slow_after(), [weak = weak_from_this()] {
        if (const auto state = weak.lock()) state->tell_slow();
      });
    ScriptCommand command{question.command, question.arguments, environment, spec.limit, hosts::most_output};
    run.emplace(loop, command,
                ScriptRun::Handlers{[weak = weak_from_this()](ScriptAnswer answer) {
                                      if (const auto state = weak.lock()) state->answered(answer);
                                    },
                                    [weak = weak_from_this()] {
                                      if (const auto state = weak.lock()) state->gone();
                                    }});
  }

  [[nodiscard]] Duration slow_after() const { return std::min<Duration>(seconds(10), spec.limit / 3); }

  void tell_slow() {
    say(fmt::format("host discovery: {} has not answered for {}; after {} it is killed and asked again",
                    question.asked, format_duration(slow_after()), format_duration(spec.limit)));
  }

  void answered(const ScriptAnswer& answer) {
    answered_once = true;  // a failure is told as well
    slow.disarm();
    auto complaints = answer.complaints;
    if (!answer.output && answer.more_complaints == 0 && !complaints.empty())
      complaints.pop_back();  // the failure says it
    for (const auto& line : filter.choose(complaints, answer.more_complaints, io::Loop::now()))
      say(fmt::format("host discovery: {} says {}", question.asked, line));
    tell(read(answer));
  }

  hosts::Poller::Told failed(const std::string& why) {
    if (const auto tell_problem = handlers.problem) tell_problem(why);
    return poller.failure(why);
  }

  hosts::Poller::Told read(const ScriptAnswer& answer) {
    if (!answer.output) {
      auto error = answer.output.error();
      if (error.hint.empty()) error.hint = question.advice;
      return failed(question.asked + " " + words_of(error));
    }
    // Most answers are the last one again, and reading that of thousands of hosts takes a while.
    if (last_good == *answer.output && poller.settled()) return {};
    const auto listing = question.read(*answer.output);
    if (!listing) return failed(fmt::format("{}: {}", question.asked, words_of(listing.error())));
    last_good = *answer.output;
    if (const auto tell_problem = handlers.problem) tell_problem({});
    return poller.answer(*listing, witness);
  }

  void tell(const hosts::Poller::Told& told) {
    for (const auto& line : told.say) say(line);
    if (told.hosts && !stopped && handlers.hosts) {
      const auto tell_hosts = handlers.hosts;
      tell_hosts(*told.hosts);
    }
  }

  void say(const std::string& line) {
    if (stopped || !handlers.say) return;
    const auto tell_line = handlers.say;  // it may stop us
    tell_line(line);
  }

  void gone() {
    run.reset();
    if (stopped) return;
    if (again) return ask();
    next.arm(io::Loop::now() + spec.interval, [weak = weak_from_this()] {
      if (const auto state = weak.lock(); state && !state->stopped) state->ask();
    });
  }

  void stop() {
    stopped = true;
    handlers = {};
    next.disarm();
    slow.disarm();
    watch.reset();
    run.reset();
  }

  io::Loop& loop;
  const DiscoverySpec spec;
  const Context context;
  std::vector<std::string> environment;
  Handlers handlers;
  Question question;
  hosts::Poller poller;
  std::optional<std::string> last_good;  // output that could be read
  ComplaintFilter filter;
  io::Timer next;
  io::Timer slow;  // until the first answer
  std::optional<FileWatch> watch;
  std::optional<ScriptRun> run;         // one at a time
  std::optional<Instant> last_witness;  // when the last look began that could confirm a removal
  bool started = false, stopped = false, answered_once = false;
  bool witness = true;  // of the run that goes on
  bool again = false;   // asked for while it goes on
};

Discovery::Discovery(io::Loop& loop, const DiscoverySpec& spec, Context context,
                     std::vector<std::string> environment, Handlers handlers)
    : state_(std::make_shared<State>(loop, spec, std::move(context), std::move(environment),
                                     std::move(handlers))) {}

Discovery::~Discovery() { stop(); }
void Discovery::start() { state_->start(); }
void Discovery::ask_now() { state_->ask_now(); }
void Discovery::set_hosts(std::vector<std::string> current, std::vector<std::string> failed) {
  state_->set_hosts(current, failed);
}
void Discovery::stop() { state_->stop(); }

}  // namespace trainrun
