#include "launcher/core/job_event.h"

namespace trainrun::core {

TRAINRUN_COMPILED_HERE(JobEvent)

std::string_view to_string(Deadline deadline) {
  switch (deadline) {
    case Deadline::start:
      return "start";
    case Deadline::job:
      return "job";
    case Deadline::grace:
      return "grace";
    case Deadline::kill:
      return "kill";
    case Deadline::stop:
      return "stop";
    case Deadline::sweep:
      return "sweep";
    case Deadline::backoff:
      return "backoff";
    case Deadline::hosts:
      return "hosts";
    case Deadline::settle:
      return "settle";
    case Deadline::world:
      return "world";
    case Deadline::join:
      return "join";
    case Deadline::leave:
      return "leave";
    case Deadline::inspect:
      return "inspect";
    case Deadline::notice:
      return "notice";
    case Deadline::cause:
      return "cause";
    case Deadline::steady:
      return "steady";
    case Deadline::finish:
      return "finish";
    case Deadline::newcomers:
      return "newcomers";
  }
  return {};
}

bool judges_hosts(Deadline deadline) {
  switch (deadline) {
    case Deadline::grace:
    case Deadline::kill:
    case Deadline::sweep:
    case Deadline::leave:
      return true;
    case Deadline::start:
    case Deadline::job:
    case Deadline::stop:
    case Deadline::backoff:
    case Deadline::hosts:
    case Deadline::settle:
    case Deadline::world:
    case Deadline::join:
    case Deadline::inspect:
    case Deadline::notice:
    case Deadline::cause:
    case Deadline::steady:
    case Deadline::finish:
    case Deadline::newcomers:
      break;
  }
  return false;
}

}  // namespace trainrun::core
