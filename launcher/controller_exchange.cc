// What ranks exchange by way of their agents, and what MPI programs tell.
#include <algorithm>
#include <utility>
#include <variant>

#include "launcher/controller.h"
#include "launcher/wire/death_messages.h"

namespace trainrun {

void Controller::exchanges(HostIndex host, const wire::Frame& frame) {
  store_.meet_elsewhere(world_.generation());
  const auto handle = [&]<class Message>(const Message*, auto&& work) {
    if (auto message = wire::from_frame<Message>(frame)) perform(work(std::move(*message)));
  };
  switch (frame.type) {
    case wire::ExchangeLost::type:
      return handle(static_cast<wire::ExchangeLost*>(nullptr),
                    [&](const wire::ExchangeLost& it) { return exchange_.lost(it); });
    case wire::Gather::type:
      return handle(static_cast<wire::Gather*>(nullptr),
                    [&](wire::Gather it) { return exchange_.gather(host, std::move(it)); });
    case wire::Ask::type:
      return handle(static_cast<wire::Ask*>(nullptr),
                    [&](const wire::Ask& it) { return exchange_.ask(host, it); });
    case wire::Answer::type:
      return handle(static_cast<wire::Answer*>(nullptr),
                    [&](wire::Answer it) { return exchange_.answer(host, std::move(it)); });
    default:
      return;
  }
}

// The ranks of other hosts of a job that goes on without this one are not to wait for its ranks.
void Controller::lost_to_exchange(HostIndex host) {
  if (job_.elastic.on_failure != OnFailure::ignore) return;
  for (const auto rank : world_.ranks_on(host)) go_on_without(rank, "was on a host that was lost");
}

void Controller::go_on_without(Rank rank, const std::string& how) {
  rendezvous_.member_failed(world_.generation(), rank, world_.host_of(rank), how);
  for (const auto host : world_.introduced()) {
    if (auto* session = fleet_.find(host)) session->send(wire::RankDied{world_.generation(), rank});
  }
  perform(exchange_.died(world_.generation(), rank));
}

void Controller::perform(rendezvous::Exchange::Effects effects) {
  for (const auto& send : effects.messages) {
    for (const auto host : send.to) {
      auto* session = fleet_.find(host);
      if (session != nullptr) std::visit([session](const auto& it) { session->send(it); }, send.message);
    }
  }
  if (effects.broken)
    event(core::ExchangeBroken{effects.broken->generation, effects.broken->culprits, effects.broken->reason});
}

void Controller::aborted(HostIndex host, const wire::Aborted& abort) {
  const auto when = fleet_.at(host).map_time(abort.at_ns);
  const auto words = console_.last_words(abort.worker);
  event(core::WorkerAborted{abort.worker, abort.code, when.at, when.error,
                            words.empty() ? std::string{} : words.back(),
                            core::sounds_like_lost_peer(words)});
}

}  // namespace trainrun
