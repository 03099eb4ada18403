#include "launcher/core/cause.h"

namespace trainrun::core {

TRAINRUN_COMPILED_HERE(Cause)

std::string_view to_string(Limit limit) {
  switch (limit) {
    case Limit::start_timeout:
      return "--start-timeout";
    case Limit::elastic_timeout:
      return "--elastic-timeout";
    case Limit::start_timeout_times_ten:
      return "ten times --start-timeout";
    case Limit::twice_the_first_start:
      return "twice what the first generation took";
  }
  return {};
}

std::string_view to_string(CauseKind kind) {
  switch (kind) {
    case CauseKind::rank_failed:
      return "rank failed";
    case CauseKind::host_lost:
      return "host lost";
    case CauseKind::no_port:
      return "no port";
    case CauseKind::world_broken:
      return "world broken";
    case CauseKind::member_missing:
      return "member missing";
    case CauseKind::hung:
      return "hung";
    case CauseKind::hosts_left:
      return "hosts left";
    case CauseKind::hosts_came:
      return "hosts came";
    case CauseKind::slots_changed:
      return "slots changed or filled";
    case CauseKind::ranks_ready:
      return "ranks ready";
    case CauseKind::asked_for:
      return "asked for";
    case CauseKind::rank_finished:
      return "rank finished";
  }
  return {};
}

}  // namespace trainrun::core
