// When a rank is told that hosts change, how often and by which address.
#include "rendezvous/adapters/horovod_notices.h"

#include <doctest/doctest.h>

#include "rendezvous/digest.h"

namespace trainrun::rendezvous {
namespace {

using Told = std::vector<std::string>;

constexpr std::uint32_t loopback = 0x7f000001, ethernet = 0x0a000001;
const std::string key(32, 'k');

struct Scene {
  struct Attempt {
    std::uint32_t number;
    WorkerId worker;
    HorovodEndpoint to;
    std::int64_t stamp;
    int flags;
    friend bool operator==(const Attempt&, const Attempt&) = default;
  };
  Scene() {
    notices.begin({{1}, {2}});
    for (const auto worker : {WorkerId{1}, WorkerId{2}})
      notices.registered(worker, {{{ethernet, static_cast<std::uint16_t>(worker.value)}}, key}, now);
  }
  static Attempt read(std::uint32_t number, WorkerId worker, HorovodEndpoint to, const std::string& bytes) {
    std::int64_t stamp = 0;
    for (int i = 0; i < 4; ++i)
      stamp |=
          std::int64_t{static_cast<unsigned char>(bytes[bytes.size() - 17 + static_cast<std::size_t>(i)])}
          << (8 * i);
    return {number, worker, to, stamp, bytes[bytes.size() - 4]};
  }
  // The attempt that is under way, which is the latest.
  Attempt& last() {
    REQUIRE_FALSE(attempts.empty());
    return attempts.back();
  }
  void acknowledge() {
    const std::string body = "AckResponse";
    notices.received(last().number, keyed_digest(key, body) + std::string("\x0b\0\0\0", 4) + body, false,
                     now);
  }
  // To the next deadline, which must be there.
  Duration wait() {
    const auto next = notices.next_deadline();
    REQUIRE(next);
    const auto waited = *next - now;
    now = *next;
    notices.advance(now);
    return waited;
  }

  Instant now{seconds(1000)};
  std::vector<Attempt> attempts;
  std::vector<std::uint32_t> dropped;
  Told failed;
  HorovodNotices notices{
      {[this](std::uint32_t attempt, WorkerId worker, HorovodEndpoint to, const std::string& bytes) {
         attempts.push_back(read(attempt, worker, to, bytes));
       },
       [this](std::uint32_t attempt) { dropped.push_back(attempt); },
       [this](WorkerId worker, const std::string& why) {
         failed.push_back(std::to_string(worker.value) + ": " + why);
       }}};
};

}  // namespace

TEST_CASE("rank 0 is told, by its port on this host first, and each stream is closed") {
  Scene scene;
  scene.notices.announce(false, 1700000000, scene.now);
  CHECK(scene.last() == Scene::Attempt{1, {1}, {loopback, 1}, 1700000000, 2});
  CHECK(scene.dropped.empty());
  scene.acknowledge();
  CHECK(scene.dropped == std::vector<std::uint32_t>{1});
  CHECK(scene.failed.empty());
}

TEST_CASE("hosts that go are never told alone") {
  Scene scene;
  scene.notices.announce(true, 1700000000, scene.now);
  CHECK(scene.last().flags == 3);
}

TEST_CASE("it is told again by the same stamp while nobody leaves the world, less and less often") {
  Scene scene;
  scene.notices.announce(false, 5, scene.now);
  std::vector<Duration> pauses;
  for (int i = 0; i < 6; ++i) {
    scene.acknowledge();
    pauses.push_back(scene.wait());
    CHECK(scene.last().stamp == 5);
  }
  CHECK(pauses ==
        std::vector<Duration>{seconds(5), seconds(10), seconds(20), seconds(40), seconds(60), seconds(60)});
  CHECK(scene.attempts.size() == 7);
  scene.notices.interrupted();
  CHECK_FALSE(scene.notices.next_deadline());
  CHECK(scene.dropped.size() == 7);
}

TEST_CASE("stamps go up, whatever the clock says") {
  Scene scene;
  std::vector<std::int64_t> stamps;
  for (const std::int64_t clock : {100, 100, 50, 200}) {
    scene.notices.announce(false, clock, scene.now);
    stamps.push_back(scene.last().stamp);
  }
  CHECK(stamps == std::vector<std::int64_t>{100, 101, 102, 200});
}

TEST_CASE("a later change of the same world adds to what was told") {
  Scene scene;
  scene.notices.announce(true, 1, scene.now);
  scene.notices.announce(false, 2, scene.now);
  CHECK(scene.last().flags == 3);
  CHECK(scene.dropped == std::vector<std::uint32_t>{1});
}

TEST_CASE("every address is tried, then there is a pause, and the failure is told once") {
  Scene scene;
  scene.notices.announce(false, 1, scene.now);
  scene.notices.refused(1, "Connection refused", scene.now);
  CHECK(scene.last().to == HorovodEndpoint{ethernet, 1});
  CHECK(scene.failed.empty());
  CHECK(scene.wait() == HorovodNotices::reply_limit);  // no answer
  CHECK(scene.failed == Told{"1: no answer"});
  CHECK(scene.attempts.size() == 2);
  CHECK(scene.wait() == HorovodNotices::first_pause);
  CHECK(scene.last() == Scene::Attempt{3, {1}, {loopback, 1}, 1, 2});
  scene.notices.received(3, "", true, scene.now);
  scene.notices.received(4, std::string(36, 'x'), false, scene.now);
  CHECK(scene.failed.size() == 1);
  CHECK(scene.wait() == HorovodNotices::first_pause * 2);
  scene.acknowledge();
  CHECK(scene.wait() == HorovodNotices::first_repeat);
}

TEST_CASE("what comes of a stream that was given up is not heard") {
  Scene scene;
  scene.notices.announce(false, 1, scene.now);
  scene.wait();
  REQUIRE(scene.last().number == 2);
  const std::string body = "AckResponse";
  scene.notices.received(1, keyed_digest(key, body) + std::string("\x0b\0\0\0", 4) + body, true, scene.now);
  scene.notices.refused(1, "Connection refused", scene.now);
  CHECK(scene.attempts.size() == 2);
}

TEST_CASE("a rank whose address comes late is told then") {
  Scene scene;
  scene.notices.begin({{3}, {1}});
  scene.notices.announce(false, 1, scene.now);
  CHECK(scene.attempts.empty());
  CHECK_FALSE(scene.notices.next_deadline());
  scene.notices.registered({3}, {{{loopback, 9}}, key}, scene.now);
  CHECK(scene.last() == Scene::Attempt{1, {3}, {loopback, 9}, 1, 2});
  scene.notices.registered({3}, {{{loopback, 9}}, key}, scene.now);
  CHECK(scene.attempts.size() == 1);
}

TEST_CASE(
    "a world that begins knows nothing of what the one before was told, and its survivors keep their "
    "addresses") {
  Scene scene;
  scene.notices.announce(false, 1, scene.now);
  scene.notices.begin({{2}, {7}});
  CHECK(scene.dropped == std::vector<std::uint32_t>{1});
  CHECK_FALSE(scene.notices.next_deadline());
  scene.notices.announce(true, 1, scene.now);
  CHECK(scene.last() == Scene::Attempt{2, {2}, {loopback, 2}, 2, 3});
  // Nor does it hear of a change while its ranks leave it.
  scene.notices.interrupted();
  scene.notices.announce(false, 9, scene.now);
  CHECK(scene.attempts.size() == 2);
}

}  // namespace trainrun::rendezvous
