// elastic_digits under a launcher that the test plays: ranks are killed, come and go, and the result is that
// of the undisturbed run, with every digit of every epoch used once.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/unit/comm/fleet.h"

using namespace trainrun;

namespace {

constexpr int epochs = 12;

struct Folder {
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }  // a killed rank may have left half a file
  [[nodiscard]] std::string log(int epoch) const { return fmt::format("{}/used.{}", path, epoch); }
  std::string path = "/tmp/trainrun-digits-XXXXXX";
};

std::vector<std::string> command(const Folder& folder) {
  return {TRAINRUN_ELASTIC_WORKER, "--epochs",           std::to_string(epochs), "--commit-every", "5",
          "--log-samples",         folder.path + "/used"};
}

// Digits that were not used exactly once.
int wrong(const Folder& folder, int epoch) {
  std::ifstream file(folder.log(epoch));
  int lines = 0, bad = 0, index = 0, count = 0;
  for (; file >> index >> count; ++lines) bad += index == lines && count == 1 ? 0 : 1;
  return lines > 1000 ? bad : -1;
}

}  // namespace

TEST_CASE("elastic_digits ends with the accuracy of the undisturbed run, and loses and repeats no digit") {
  std::string undisturbed;
  {
    const Folder folder;
    Fleet fleet(3, command(folder));
    undisturbed = fleet.hears(1, "held-out accuracy");
    for (const std::uint32_t worker : {1, 2, 3}) CHECK(fleet.exit_code(worker) == 0);
    for (int epoch = 1; epoch <= epochs; ++epoch) CHECK(wrong(folder, epoch) == 0);
  }
  MESSAGE("undisturbed: ", undisturbed);

  const Folder folder;
  Fleet fleet(3, command(folder));
  std::mt19937 random(7);
  std::uint32_t last = 3;
  for (int round = 0; round < 4; ++round) {
    auto workers = fleet.workers();
    // Rank 0 tells of each epoch: one has ended in this world.
    fleet.hears(workers.front(), fmt::format("generation {}:", fleet.generation));
    fleet.hears(workers.front(), "/12");
    const auto victim = workers[random() % workers.size()];
    std::erase(workers, victim);
    fleet.kill(victim);
    fleet.all_wait(workers);
    const auto survivors = workers.size();
    if (round != 1)
      for (int added = round == 2 ? 2 : 1; added > 0; --added) workers.push_back(++last);
    fleet.begin(workers);
    for (auto rank = survivors; rank < workers.size(); ++rank) fleet.spawn(workers[rank]);
  }
  CHECK(fleet.hears(fleet.workers().front(), "held-out accuracy") == undisturbed);
  for (const auto worker : fleet.workers()) CHECK(fleet.exit_code(worker) == 0);
  for (int epoch = 1; epoch <= epochs; ++epoch) CHECK(wrong(folder, epoch) == 0);
}
