// What a helper may say of ranks that speak PMIx, what the launcher may say, and what may happen to ranks
// meanwhile, in any order. Each line of the input begins with what: f, a fence (then a digit that says of
// which ranks, then bytes); q, a question about rank 0 to 9; m, an answer to the last question of others; a,
// another host asks; r and z, a rank reaches init or finalize; l, it ends; g and h, the launcher brings all
// parts of the last fence, or a part of them; w, an answer comes; x, the exchange fails; b, abort; p, words;
// n, a refusal.
#include "launcher/agent/pmix_world.h"

#include <set>

#include "launcher/base/strings.h"
#include "launcher/wire/frame.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using agent::PmixWorld;
namespace pmix = trainrun::wire::pmix;

namespace {

constexpr Generation now{1};

wire::World four_ranks_on_two_hosts() {
  wire::World world;
  world.generation = now;
  world.hosts = {"node1", "node2"};
  world.host_of_rank = {0, 0, 1, 1};
  world.program_of_rank = {0, 0, 0, 0};
  world.programs = {{{"./program"}, "/"}};
  return world;
}

class Game {
 public:
  Game() : world_(four_ranks_on_two_hosts()) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) world_.add({rank + 1}, Rank{rank});
  }

  void play(std::string_view line) {
    if (line.size() < 2) return;
    const auto digit = (static_cast<unsigned char>(line[1]) - std::uint32_t{'0'}) % 10;
    const std::string rest(line.substr(2));
    switch (line.front()) {
      case 'f': {
        constexpr std::uint32_t most = 4;
        pmix::FenceAsked question{now, ++number_, {}, rest};
        for (std::uint32_t rank = 0; rank < most; ++rank)
          if ((digit >> rank & 1) != 0) question.group.push_back(Rank{rank});
        if (digit == 9) question.group = {Rank{3}, Rank{1}};
        waiting_.insert(number_);
        group_ = question.group;
        return hear(world_.received(std::move(question)));
      }
      case 'q':
        waiting_.insert(++number_);
        return hear(world_.received(pmix::ModexAsked{now, number_, Rank{digit}}));
      case 'm':
        return hear(world_.received(pmix::Modex{asked_, digit == 0 ? 0 : -1, rest}));
      case 'a':
        return hear(world_.asked({now, ++asked_, Rank{digit}, rest, wire::Dialect::pmix}));
      case 'r':
      case 'z':
        return hear(world_.received(pmix::Reached{
            now, Rank{digit}, line.front() == 'r' ? pmix::Stage::connected : pmix::Stage::finalized}));
      case 'l':
        return hear(world_.left({digit}));
      case 'g':
      case 'h':
        return hear(world_.gathered(
            {now, group_, sequence_ + digit / 5, {rest, rest}, line.front() == 'g', wire::Dialect::pmix}));
      case 'w':
        return hear(world_.answered({now, number_ - digit, digit % 2 == 0, rest}));
      case 'x':
        return hear(world_.failed());
      case 'd':
        return hear(world_.died(Rank{digit}));
      case 'b':
        return hear(world_.received(pmix::AbortAsked{now, Rank{digit}, 7, rest}));
      case 'p':
        return hear(world_.received(pmix::Logged{now, Rank{digit}, wire::Output::err, rest}));
      case 'n':
        return hear(
            world_.received(pmix::Refused{now, Rank{digit}, static_cast<pmix::Service>(1 + digit % 4)}));
      default:
        return;
    }
  }

 private:
  void hear(const PmixWorld::Effects& effects) {
    for (const auto& effect : effects) {
      if (const auto* reply = std::get_if<pmix::Reply>(&effect)) {
        FUZZ_CHECK(waiting_.erase(reply->number) == 1);  // each is answered once, and none that did not ask
        FUZZ_CHECK(reply->status == 0 || reply->parts.empty());
        if (reply->status == 0) accepted();
      } else if (const auto* part = std::get_if<wire::Gather>(&effect)) {
        FUZZ_CHECK(part->dialect == wire::Dialect::pmix && part->sequence >= 1);
        FUZZ_CHECK(part->missing.empty() || part->bytes.empty());
        FUZZ_CHECK(wire::to_frame(*part).size() <= wire::frame_limit);
        sequence_ = part->sequence;
        group_ = part->group;
      } else if (const auto* tell = std::get_if<PmixWorld::Tell>(&effect)) {
        FUZZ_CHECK(!tell->text.empty() && !has_control(tell->text) && tell->text.size() < 300);
      } else if (const auto* abort = std::get_if<PmixWorld::Abort>(&effect)) {
        FUZZ_CHECK(abort->worker.value == 1 || abort->worker.value == 2);
      } else if (const auto* print = std::get_if<PmixWorld::Print>(&effect)) {
        FUZZ_CHECK(print->worker.value == 1 || print->worker.value == 2);
      } else if (const auto* question = std::get_if<pmix::AskModex>(&effect)) {
        FUZZ_CHECK(question->rank.value < 2);
      } else if (const auto* death = std::get_if<pmix::RankDied>(&effect)) {
        FUZZ_CHECK(death->rank.value < 4);
      }
    }
  }

  PmixWorld world_;
  std::uint32_t number_ = 0, asked_ = 0, sequence_ = 1;
  std::vector<Rank> group_;
  std::set<std::uint32_t> waiting_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Game game;
  for (const auto line : split(text_of(data, size), '\n')) game.play(line);
  return 0;
}
