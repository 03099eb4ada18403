#include "comm/failure.h"

#include <fmt/format.h>

namespace trainrun::comm {

Failure failure_of(const rendezvous::Verdict& verdict) {
  Failure failure;
  switch (verdict.kind) {
    case rendezvous::Verdict::Kind::lost:
      failure.status = TRC_PEER_LOST;
      break;
    case rendezvous::Verdict::Kind::stalled:
      failure.status = TRC_TIMEOUT;
      break;
    case rendezvous::Verdict::Kind::ended:
    case rendezvous::Verdict::Kind::aborted:
      failure.status = TRC_ABORTED;
      break;
  }
  failure.message = describe(verdict);
  failure.culprit = verdict.culprit;
  failure.host = verdict.host;
  failure.how = verdict.how;
  failure.missing = verdict.missing;
  failure.of_world = true;
  return failure;
}

Failure failure_of_leaver(const rendezvous::Member& member) {
  Failure failure;
  failure.status = TRC_ABORTED;
  failure.culprit = member.rank;
  failure.host = member.host;
  failure.how = has_left;
  failure.message =
      fmt::format("rank {}{} {}", member.rank, member.host.empty() ? "" : " on " + member.host, failure.how);
  return failure;
}

Failure failure_of(const rendezvous::Failure& failure) {
  using rendezvous::FailureKind;
  if (failure.verdict) return failure_of(*failure.verdict);
  Failure ours;
  ours.message = failure.message;
  ours.missing = failure.missing;
  switch (failure.kind) {
    case FailureKind::timeout:
      ours.status = TRC_TIMEOUT;
      break;
    case FailureKind::stale:
    case FailureKind::over:
    case FailureKind::left:
      ours.status = TRC_ABORTED;
      if (failure.missing.size() == 1) ours.culprit = failure.missing.front();
      break;
    case FailureKind::removed:
      ours.status = TRC_REMOVED;
      break;
    case FailureKind::disconnected:
    case FailureKind::refused:
      ours.status = TRC_TRANSPORT;
      break;
    case FailureKind::invalid:
    case FailureKind::not_found:
    case FailureKind::exists:
    case FailureKind::limit:
      ours.status = TRC_INVALID;
      break;
  }
  return ours;
}

}  // namespace trainrun::comm
