// Stdin on its way to the ranks: who is given what, and who is waited for.
#include "launcher/input.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "launcher/base/fd.h"

using namespace trainrun;

namespace {

// A pipe in the place of our stdin.
struct Scene {
  Scene() : before(::dup(STDIN_FILENO)) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    write_end = Fd(ends[1]);
    REQUIRE(::dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    ::close(ends[0]);
  }
  ~Scene() {
    if (before)
      ::dup2(before.get(), STDIN_FILENO);
    else
      ::close(STDIN_FILENO);
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  // Until `worker` has so much, in all.
  void write(const std::string& bytes, WorkerId worker, const std::string& has) {
    REQUIRE(::write(write_end.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    run_until([this, worker, has] { return given[worker] == has; });
  }
  void close() {
    write_end.reset();
    run_until([this] { return ended[WorkerId{1}] > 0; });
  }
  void run_until(std::function<bool()> condition) {
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + seconds(10), [this] { loop.stop(); });
    holds = std::move(condition);
    look();
    loop.run();
    CHECK(holds());
  }
  void look() {
    loop.post([this] {
      if (holds()) loop.stop();
    });
  }

  Fd before, write_end;
  io::Loop loop;
  std::map<WorkerId, std::string> given;
  std::map<WorkerId, int> ended;
  std::function<bool()> holds;
  Input input{loop, [this](WorkerId worker, const std::string& bytes, bool end) {
                given[worker] += bytes;
                ended[worker] += end ? 1 : 0;
                if (holds) look();
              }};
};

constexpr WorkerId rank0{1}, newcomer{2};

}  // namespace

TEST_SUITE("input") {
  TEST_CASE("nobody waits for one that has no place yet, and it is given what comes from then on") {
    Scene scene;
    scene.input.add(rank0);
    scene.input.add_newcomer(newcomer);
    scene.input.wanted(rank0, 1000);
    scene.write("one ", rank0, "one ");
    scene.input.wanted(newcomer, 1000);
    scene.write("two ", rank0, "one two ");
    CHECK(scene.given[newcomer].empty());
    SUBCASE("a rank that has stdin") {
      CHECK(scene.input.admit(newcomer, true));
      CHECK_FALSE(scene.input.admit(rank0, true));  // it has its place
      scene.write("three", rank0, "one two three");
      CHECK(scene.given[newcomer] == "three");
      scene.close();
      CHECK(scene.ended[newcomer] == 1);
    }
    SUBCASE("one that is admitted before it wants anything holds up the others until it does") {
      scene.input.add_newcomer(WorkerId{3});
      scene.input.admit(WorkerId{3}, true);
      scene.input.wanted(WorkerId{3}, 3);
      scene.write("three", rank0, "one two thr");
      CHECK(scene.given[WorkerId{3}] == "thr");
    }
    SUBCASE("a rank that has none") {
      scene.input.admit(newcomer, false);
      CHECK(scene.ended[newcomer] == 1);
      scene.write("three", rank0, "one two three");
      CHECK(scene.given[newcomer].empty());
    }
    SUBCASE("the end reaches it all the same: it may read its settings before it asks for its place") {
      scene.close();
      CHECK(scene.ended[newcomer] == 1);
      CHECK(scene.ended[rank0] == 1);
    }
    SUBCASE("one that ends is forgotten") {
      scene.input.remove(newcomer);
      scene.input.admit(newcomer, true);
      scene.write("three", rank0, "one two three");
      CHECK(scene.given[newcomer].empty());
    }
  }
}
