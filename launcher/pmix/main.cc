// The helper of an agent for ranks that speak PMIx, as Open MPI does: libpmix is a library with threads, a
// listening port and plugins, and has no place in the agent. It is a child of the agent, which gives it a
// socket as stdin; it ends with that.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>

#include "launcher/pmix/channel.h"
#include "launcher/pmix/server.h"

namespace trainrun::pmix {
namespace {

template <class Message, class Work>
bool handle(const wire::Frame& frame, const Work& work) {
  auto message = wire::from_frame<Message>(frame);
  if (message) work(std::move(*message));
  return message.has_value();
}

// Ends the process, without destructors: threads of ours and of libpmix wait on what they would destroy, and
// its files are the agent's to remove.
[[noreturn]] void serve() {
  Channel channel(STDIN_FILENO);
  Server server(channel);
  while (const auto frame = channel.next()) {
    bool understood = false;
    switch (frame->type) {
      case wire::pmix::Open::type:
        understood = handle<wire::pmix::Open>(*frame, [&](const auto& it) { server.open(it); });
        break;
      case wire::pmix::Register::type:
        understood = handle<wire::pmix::Register>(*frame, [&](const auto& it) { server.enter(it); });
        break;
      case wire::pmix::Reply::type:
        understood = handle<wire::pmix::Reply>(*frame, [&](auto it) { server.reply(std::move(it)); });
        break;
      case wire::pmix::AskModex::type:
        understood = handle<wire::pmix::AskModex>(*frame, [&](const auto& it) { server.ask(it); });
        break;
      case wire::pmix::RankDied::type:
        understood = handle<wire::pmix::RankDied>(*frame, [&](const auto& it) { server.tell_of(it); });
        break;
      default:
        break;
    }
    if (!understood) ::_exit(1);
  }
  server.leave();
  ::_exit(0);
}

}  // namespace
}  // namespace trainrun::pmix

int main(int argc, char**) {
  if (argc != 1 || ::isatty(STDIN_FILENO) != 0) {
    std::fputs("This is trainrun's helper for PMIx. It is started by trainrun's agent, not by hand.\n",
               stderr);
    return 2;
  }
  // It was executed from memory, under a number.
  ::prctl(PR_SET_NAME, "trainrun-pmix");
  // It serves ranks until the last of them has ended: the agent alone ends it.
  for (const int number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    ::signal(number, SIG_IGN);
  trainrun::pmix::serve();
}
