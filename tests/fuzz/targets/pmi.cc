// What ranks may say in PMI-1, and what may happen to their world meanwhile. Each line of the input begins
// with who or what: 0 and 1 are the ranks of this host, which say the rest of it; l0 and l1: the rank ends;
// g: the launcher brings everybody's parts; f: the world fails, with the rest as the reason.
#include "launcher/agent/pmi_world.h"
#include "launcher/base/strings.h"
#include "launcher/wire/frame.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using agent::PmiWorld;

namespace {

struct Heard {
  bool in_barrier = false, hung_up = false, gone = false;
};

class Game {
 public:
  Game() : world_("0123456789abcdef", Generation{1}) {
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      world_.add({rank + 1}, {Rank{rank}, 4, 2, 0, "(vector,(0,2,2))"});
  }

  void play(std::string_view line) {
    if (line.empty()) return;
    const auto rest = line.substr(1);
    switch (line.front()) {
      case '0':
      case '1': {
        const WorkerId worker{line.front() - '0' + 1u};
        // In pieces, and the last piece with its newline.
        const auto half = rest.size() / 2;
        hear(world_.received(worker, rest.substr(0, half)), nullptr);
        ranks_[worker.value - 1].in_barrier |= rest.find("barrier_in") != std::string_view::npos;
        return hear(world_.received(worker, std::string(rest.substr(half)) + "\n"), &worker);
      }
      case 'l': {
        const WorkerId worker{rest.starts_with("1") ? 2u : 1u};
        hear(world_.left(worker), nullptr);
        ranks_[worker.value - 1].gone = true;
        return;
      }
      case 'g':
        if (!part_) return;
        return hear(world_.gathered({Generation{1}, {}, part_->sequence, {part_->bytes, part_->bytes}, true}),
                    nullptr);
      case 'f':
        return hear(world_.failed(std::string(rest)), nullptr);
      default:
        hear(world_.gathered({Generation{1}, {}, 1, {std::string(rest)}, line.front() != 'x'}), nullptr);
    }
  }

 private:
  static void check_line(std::string_view line) {
    FUZZ_CHECK(line.starts_with("cmd="));
    FUZZ_CHECK(line.size() <= agent::pmi1::longest_line + 100);
    for (const auto word : split(line, ' ')) {
      const auto equals = word.find('=');
      FUZZ_CHECK(equals != std::string_view::npos && equals > 0 && equals + 1 < word.size());
    }
  }

  void hear(PmiWorld::Effects effects, const WorkerId* asker) {
    int answers = 0;
    for (auto& effect : effects) {
      if (const auto* reply = std::get_if<PmiWorld::Reply>(&effect)) {
        auto& rank = ranks_[reply->worker.value - 1];
        FUZZ_CHECK(!rank.hung_up && !rank.gone);
        FUZZ_CHECK(reply->bytes.ends_with('\n'));
        for (const auto line :
             split(std::string_view(reply->bytes).substr(0, reply->bytes.size() - 1), '\n')) {
          check_line(line);
          if (line.starts_with("cmd=barrier_out")) {
            FUZZ_CHECK(rank.in_barrier);
            rank.in_barrier = rank.in_barrier && line.find("offer") != std::string_view::npos;
          }
        }
        if (asker != nullptr && *asker == reply->worker) ++answers;
        if (reply->bytes.find("rc=0") != std::string::npos) accepted();
      } else if (const auto* hang_up = std::get_if<PmiWorld::HangUp>(&effect)) {
        auto& rank = ranks_[hang_up->worker.value - 1];
        FUZZ_CHECK(!rank.hung_up && !rank.gone);
        rank.hung_up = true;
      } else if (const auto* tell = std::get_if<PmiWorld::Tell>(&effect)) {
        FUZZ_CHECK(!tell->text.empty() && !has_control(tell->text) && tell->text.size() < 300);
        FUZZ_CHECK(++told_ <= 8);
      } else if (const auto* part = std::get_if<wire::Gather>(&effect)) {
        FUZZ_CHECK(wire::to_frame(*part).size() <= wire::frame_limit);
        FUZZ_CHECK(part->missing.empty() || part->bytes.empty());
        part_ = *part;
      }
    }
    FUZZ_CHECK(answers <= 1);  // an answer a line
  }

  PmiWorld world_;
  Heard ranks_[2];
  std::optional<wire::Gather> part_;
  int told_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Game game;
  for (const auto line : split(text_of(data, size), '\n')) game.play(line);
  return 0;
}
