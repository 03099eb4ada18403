// The exchanges of ranks under any order of parts, questions, answers, ends and generations, from any host.
#include "rendezvous/exchange.h"

#include <set>

#include "launcher/wire/frame.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using rendezvous::Exchange;

namespace {

class Game {
 public:
  void play(Bytes& bytes) {
    begin(bytes);
    for (int moves = 0; !bytes.empty() && moves < 500; ++moves) move(bytes);
  }

 private:
  void begin(Bytes& bytes) {
    ++generation_.value;
    hosts_.clear();
    const auto ranks = 1u + bytes.byte() % 6u;
    for (unsigned rank = 0; rank < ranks; ++rank) hosts_.push_back({bytes.byte() % 4u});
    exchange_.begin(generation_, hosts_);
    open_ = true;
    some_died_ = false;
    sent_.clear();
  }

  void move(Bytes& bytes) {
    const auto what = bytes.byte();
    const HostIndex host{bytes.byte() % 5u};
    // Mostly of this generation, sometimes of the one before or the next.
    const auto shift = bytes.byte();
    const Generation generation{generation_.value + (shift == 0 ? 1u : shift == 1 ? ~0u : 0u)};
    switch (what % 8) {
      case 0:
        if (what == 8) return hear(exchange_.lost({generation, "its helper has ended"}), generation);
        return what == 0 ? begin(bytes) : hear(exchange_.end(generation, "enough"), generation);
      case 1: {
        const Rank rank{bytes.byte() % 7u};
        if (what % 16 == 9) {
          some_died_ = true;
          return hear(exchange_.died(generation, rank), generation);
        }
        return hear(exchange_.left(generation, rank), generation);
      }
      case 2:
        return hear(
            exchange_.ask(host, {generation, what, Rank{bytes.byte() % 7u}, std::string(bytes.take(5))}),
            generation);
      case 3:
        return hear(exchange_.answer(host, {generation, bytes.byte() % 8u, true, std::string(bytes.take(5))}),
                    generation);
      default: {
        wire::Gather part{generation, {}, bytes.byte() % 8u, {}, {}};
        for (unsigned rank = what / 8u % 4u; rank > 0; --rank) part.group.push_back({bytes.byte() % 7u});
        part.bytes = bytes.take(bytes.byte() % 8u);
        if (what % 3 == 0) part.dialect = wire::Dialect::pmix;
        if (what >= 0xF0) part.missing.push_back({bytes.byte() % 7u});
        if (generation == generation_) sent_.insert(host);
        return hear(exchange_.gather(host, part), generation);
      }
    }
  }

  void hear(const Exchange::Effects& effects, Generation about) {
    if (!open_ || about != generation_) {
      FUZZ_CHECK(effects.messages.empty() && !effects.broken);
      return;
    }
    const std::set<HostIndex> all(hosts_.begin(), hosts_.end());
    for (const auto& send : effects.messages) {
      accepted();
      FUZZ_CHECK(!send.to.empty());
      if (const auto* gathered = std::get_if<wire::Gathered>(&send.message)) {
        FUZZ_CHECK(gathered->last && !gathered->parts.empty() && gathered->parts.size() <= send.to.size());
        FUZZ_CHECK(some_died_ || gathered->parts.size() == send.to.size());
        for (const auto host : send.to)
          FUZZ_CHECK(all.contains(host) && (some_died_ || sent_.contains(host)));
      } else if (std::holds_alternative<wire::GatherFailed>(send.message)) {
        open_ = false;
        FUZZ_CHECK((std::set<HostIndex>(send.to.begin(), send.to.end()) == all));
      } else {
        FUZZ_CHECK(send.to.size() == 1);
      }
      std::visit(
          [this](const auto& message) {
            FUZZ_CHECK(message.generation == generation_);
            FUZZ_CHECK(wire::to_frame(message).size() <= wire::frame_limit);
          },
          send.message);
    }
    if (!effects.broken) return;
    FUZZ_CHECK(!open_ && effects.messages.size() == 1);
    FUZZ_CHECK(!effects.broken->reason.empty() && !has_control(effects.broken->reason));
    for (const auto rank : effects.broken->culprits) FUZZ_CHECK(rank.value < hosts_.size());
  }

  Exchange exchange_;
  Generation generation_{};
  std::vector<HostIndex> hosts_;
  bool open_ = false, some_died_ = false;
  std::set<HostIndex> sent_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  Game().play(bytes);
  return 0;
}
