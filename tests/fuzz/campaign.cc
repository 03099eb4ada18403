#include "tests/fuzz/campaign.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "launcher/base/exit_status.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/mutate.h"

namespace trainrun::fuzz {
namespace {

// What the child leaves behind, however it dies.
struct Board {
  std::atomic<bool> busy = false;
  std::atomic<std::uint64_t> tried = 0, accepted = 0;
  std::atomic<std::size_t> size = 0;
  std::array<char, std::size_t{1} << 20> input{};
  std::array<char, 512> complaint{};  // of a corpus file that was (not) taken
};

constexpr int complained = 97;

bool try_one(const Campaign& campaign, Board& board, const std::string& input) {
  board.size = std::min(input.size(), board.input.size());
  std::memcpy(board.input.data(), input.data(), board.size);
  board.busy = true;
  ::alarm(campaign.hang_seconds);
  const auto before = accepted_so_far();
  // A block of its own, of the very size: a byte read beyond it is found.
  const std::unique_ptr<std::uint8_t[]> block(new std::uint8_t[board.size]);
  std::memcpy(block.get(), input.data(), board.size);
  campaign.target.run(block.get(), board.size);
  board.busy = false;
  ++board.tried;
  const bool taken = accepted_so_far() > before;
  if (taken) ++board.accepted;
  return taken;
}

void live(const Campaign& campaign, Board& board) {
  Inputs corpus;
  for (const auto& seed : campaign.seeds) {
    corpus.push_back(seed.bytes);
    const bool taken = try_one(campaign, board, seed.bytes);
    if ((seed.name.starts_with("good") && !taken) || (seed.name.starts_with("bad") && taken)) {
      const auto text = fmt::format("corpus file {} was {}", seed.name, taken ? "taken" : "refused");
      text.copy(board.complaint.data(), board.complaint.size() - 1);
      std::exit(complained);
    }
  }
  for (std::uint64_t index = 0; index < campaign.runs; ++index) {
    try_one(campaign, board, mutated(corpus, campaign.words, campaign.seed, index));
  }
  ::alarm(0);
  std::exit(0);  // not _exit: leaks are looked for there
}

}  // namespace

Outcome run(const Campaign& campaign) {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {.how = "no shared memory: " + errno_text(errno)};
  const std::unique_ptr<Board, void (*)(Board*)> board(
      new (memory) Board, [](Board* it) { static_cast<void>(::munmap(it, sizeof(Board))); });
  std::fflush(nullptr);
  const auto child = ::fork();
  if (child < 0) return {.how = "no process: " + errno_text(errno)};
  if (child == 0) live(campaign, *board);
  int raw = 0;
  while (::waitpid(child, &raw, 0) < 0 && errno == EINTR) continue;
  const auto status = ExitStatus::from_wait(raw);
  Outcome outcome{.passed = status.success(), .tried = board->tried, .accepted = board->accepted};
  if (outcome.passed) return outcome;
  const bool hung = status.kind == ExitStatus::Kind::killed && status.number == SIGALRM;
  outcome.how =
      hung ? fmt::format("took longer than {} s for one input", campaign.hang_seconds) : status.describe();
  if (status.kind == ExitStatus::Kind::exited && status.number == complained)
    outcome.how = board->complaint.data();
  outcome.has_input = board->busy;
  outcome.input.assign(board->input.data(), board->size);
  return outcome;
}

}  // namespace trainrun::fuzz
