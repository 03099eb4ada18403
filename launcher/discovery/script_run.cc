#include "launcher/discovery/script_run.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "launcher/base/exit_status.h"
#include "launcher/discovery/complaints.h"
#include "launcher/io/child.h"

namespace trainrun {
namespace {

using io::ChildEnd;

// What leads the group has its parent's death signal, but what the command starts has none. So a guard stands
// in the group and reads from us: when we are gone, however we went, it kills the group and itself. The
// command is a child of its own, so that it may wait for all of its children without meeting the guard; and
// the leader takes the guard's end, or a launcher that is the first process of a container would collect
// them.
constexpr const char* guarded = R"(
exec 3<&0 </dev/null
(read -r line <&3; kill -9 0) >/dev/null 2>&1 &
guard=$!
exec 3<&-
command=$1
shift
/bin/sh -c "$command" sh "$@"
status=$?
exec 2>/dev/null
kill -9 "$guard"
wait "$guard"
exit "$status"
)";

}  // namespace

struct ScriptRun::State : std::enable_shared_from_this<State> {
  State(const ScriptCommand& command, Handlers given)
      : handlers(std::move(given)), limit(command.limit), most_output(command.most_output) {}

  void start(io::Loop& loop, const ScriptCommand& command) {
    io::ChildRequest request;
    request.path = "/bin/sh";
    request.argv = {"sh", "-c", guarded, "sh", command.command};
    request.argv.insert(request.argv.end(), command.arguments.begin(), command.arguments.end());
    request.env = command.environment;
    request.stdin_pipe = true;  // the guard's: it ends when we do
    request.out.most = most_output;
    request.err.heard = [weak = weak_from_this()](std::string_view bytes) {
      if (const auto state = weak.lock()) state->complaints.add(bytes);
    };
    request.limit = limit;
    auto started = io::Child::start(loop, request,
                                    {[weak = weak_from_this()](ChildEnd end) {
                                       if (const auto state = weak.lock()) state->ended(std::move(end));
                                     },
                                     [weak = weak_from_this()] {
                                       if (const auto state = weak.lock()) state->gone();
                                     }});
    if (started) {
      child = std::move(*started);
      return;
    }
    loop.post([weak = weak_from_this(), why = started.error().describe()] {
      const auto state = weak.lock();
      if (!state) return;
      state->answer(fail(Code::try_again, why));
      state->gone();
    });
  }

  void ended(ChildEnd end) {
    complaints.end();
    const auto last = complaints.last().empty() ? "" : "; its last words: " + complaints.last();
    switch (end.by) {
      case ChildEnd::By::too_much:
        return answer(fail(Code::timeout, fmt::format("printed more than {} MB, and was killed{}",
                                                      most_output / 1'000'000, last)));
      case ChildEnd::By::limit:
        return answer(fail(Code::timeout, fmt::format("did not end within {}, and was killed{}",
                                                      format_duration(limit), last)));
      case ChildEnd::By::order:  // nobody gives one
      case ChildEnd::By::itself:
        break;
    }
    if (!end.status) {
      answer(
          fail(Code::internal, "ended, but nobody knows how", "start trainrun with SIGCHLD at its default"));
    } else if (!end.status->success()) {
      answer(fail(Code::try_again, end.status->describe() + last));
    } else {
      answer(std::move(end.out));
    }
  }

  void answer(Result<std::string> result) {
    if (const auto tell = std::exchange(handlers.answer, nullptr))
      tell({std::move(result), complaints.lines(), complaints.more()});
  }
  void gone() {
    if (const auto tell = std::exchange(handlers.gone, nullptr)) tell();
  }

  Handlers handlers;
  const Duration limit;
  const std::size_t most_output;
  Complaints complaints;
  std::unique_ptr<io::Child> child;
};

ScriptRun::ScriptRun(io::Loop& loop, const ScriptCommand& command, Handlers handlers)
    : state_(std::make_shared<State>(command, std::move(handlers))) {
  state_->start(loop, command);
}

ScriptRun::~ScriptRun() {
  state_->handlers = {};
  state_->child.reset();
}

}  // namespace trainrun
