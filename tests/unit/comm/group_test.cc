#include "comm/group.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <future>
#include <thread>

#include "comm/backends/local_backend.h"
#include "comm/groups.h"
#include "rendezvous/messages.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

constexpr auto patient_start = std::chrono::minutes(10);  // more than a thread needs to begin

Group alone() { return Group(0, 1, std::make_unique<LocalBackend>(), seconds(1), Group::Explain()); }

// A backend that breaks when told to.
class Fragile final : public Backend {
 public:
  explicit Fragile(int good_calls) : left_(good_calls) {}
  [[nodiscard]] const char* name() const override { return "fragile"; }
  Performed perform(const Descriptor&, const Transfer&, Deadline) override {
    if (left_-- > 0) return std::nullopt;
    return tl::unexpected(Broken{"cable"});
  }
  void abort() override {}

 private:
  int left_;
};

}  // namespace

TEST_CASE("whether a group is broken is known without waiting for the operation that runs") {
  std::promise<void> inside, go_on;
  Group group(0, 2, std::make_unique<Fragile>(0), seconds(60),
              [&](const std::string&, bool, const std::string&) {
                inside.set_value();
                go_on.get_future().wait();
                return Failure();
              });
  std::thread other([&] { CHECK_FALSE(group.barrier()); });
  inside.get_future().wait();
  CHECK_FALSE(group.broken());
  go_on.set_value();
  other.join();
  CHECK(group.broken());
}

// A backend whose operation lasts until it is aborted.
class Lasting final : public Backend {
 public:
  [[nodiscard]] const char* name() const override { return "lasting"; }
  Performed perform(const Descriptor&, const Transfer&, Deadline) override {
    running.set_value();
    aborted.get_future().wait();
    return tl::unexpected(Broken{"aborted"});
  }
  void abort() override { aborted.set_value(); }
  std::promise<void> running, aborted;
};

TEST_CASE("the time of an operation leaves out that for which the process stood still") {
  auto backend = std::make_unique<Lasting>();
  auto running = backend->running.get_future();
  std::promise<bool> explained;
  Group group(0, 2, std::move(backend), seconds(60),
              [&](const std::string&, bool timed_out, const std::string&) {
                explained.set_value(timed_out);
                return Failure();
              });
  auto end = explained.get_future();
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([&] { CHECK_FALSE(group.barrier()); });
  running.wait();
  group.look_at_time(begin + seconds(59), Duration::zero());
  group.look_at_time(begin + seconds(100), seconds(41));
  CHECK(group.time_left(begin + seconds(100)) > Duration::zero());
  CHECK(group.time_left(begin + seconds(100)) < seconds(60));
  CHECK(end.wait_for(seconds(0)) == std::future_status::timeout);  // it goes on
  group.look_at_time(begin + seconds(60 + 41) + patient_start, Duration::zero());
  CHECK(end.get());
  other.join();
  CHECK(group.time_left(begin) == seconds(60));
}

TEST_CASE("who makes a group is in that, unless another thread is in an operation") {
  auto backend = std::make_unique<Lasting>();
  auto running = backend->running.get_future();
  Groups groups;
  auto& group = groups.add(
      std::make_unique<Group>(0, 2, std::move(backend), seconds(60),
                              [](const std::string&, bool, const std::string&) { return Failure(); }));
  CHECK(groups.progress().operation.empty());
  {
    const Groups::Opening first(groups, "a", 3, "creation of a group");
    const Groups::Opening second(groups, "b", 4, "the first send to rank 1");
    CHECK(groups.progress().operation == "creation of a group");
    CHECK(groups.progress().in_operation());
    CHECK(groups.progress().sequence() == 0);
    CHECK(groups.progress().number == number_of("a"));
    CHECK(groups.progress().members == 3);
    std::thread other([&] { CHECK_FALSE(group.barrier()); });
    running.wait();
    CHECK(groups.progress().operation == "barrier");
    CHECK(groups.progress().number == rendezvous::Pulse::all_ranks);
    groups.abort();
    other.join();
    CHECK(groups.progress().operation == "creation of a group");
  }
  CHECK_FALSE(groups.progress().in_operation());
  CHECK(groups.progress().operation == "barrier");
}

TEST_CASE("lists of ranks are short in the words of an operation") {
  CHECK(among({0, 1, 2, 5}) == "among ranks 0-2,5");
  std::vector<std::uint32_t> even(64);
  for (std::uint32_t i = 0; i < even.size(); ++i) even[i] = 2 * i;
  CHECK(among(even) == "among 64 ranks");
}

TEST_CASE("a group that does not connect in time is ended like an operation, and one that has is not") {
  auto backend = std::make_unique<Lasting>();
  auto& lasting = *backend;
  auto running = lasting.running.get_future();
  Group group(0, 2, std::move(backend), seconds(60), Group::Explain());
  const auto deadline = std::chrono::steady_clock::now() + seconds(10);
  std::promise<void> ended;
  auto end = ended.get_future();
  std::thread other([&] {
    const auto connected = group.connect(
        [&]() -> Outcome<Moved> { return Moved(tl::unexpected(lasting.perform({}, {}, {}).error())); },
        deadline,
        [&](const Outcome<Moved>& failed) {
          CHECK_FALSE(*failed);
          CHECK(group.progress().in_operation());  // others still see it there
          return Failure{.status = TRC_TIMEOUT};
        });
    REQUIRE_FALSE(connected);
    CHECK(connected.error().status == TRC_TIMEOUT);
    ended.set_value();
  });
  running.wait();
  CHECK(group.progress().in_operation());
  CHECK(group.progress().sequence() == 0);
  CHECK(group.progress().operation == "connecting");
  group.look_at_time(deadline - seconds(1), Duration::zero());
  CHECK(end.wait_for(seconds(0)) == std::future_status::timeout);  // it goes on
  group.look_at_time(deadline, Duration::zero());
  end.wait();
  other.join();
  CHECK_FALSE(group.progress().in_operation());
  group.look_at_time(deadline + seconds(1000), Duration::zero());  // an abort would throw
}

TEST_CASE(
    "an operation that breaks says of which group it is, and what goes from one to another names both") {
  struct Breaking final : Backend {
    [[nodiscard]] const char* name() const override { return "breaking"; }
    [[nodiscard]] bool sends() const override { return true; }
    Performed perform(const Descriptor&, const Transfer&, Deadline) override {
      return tl::unexpected(Broken{"broken"});
    }
    void abort() override {}
  };
  enum class Does { barrier, send, receive };
  const auto words = [](std::vector<std::uint32_t> ranks, Does does) {
    Group group(0, 2, std::make_unique<Breaking>(), seconds(1),
                [](const std::string& operation, bool, const std::string&) {
                  return Failure{.status = TRC_TRANSPORT, .message = operation};
                },
                {std::move(ranks), {}, {}, {}});
    float data[1] = {1};
    const auto ended = does == Does::barrier ? group.barrier()
                       : does == Does::send  ? group.send(data, 1, TRC_F32, 1)
                                             : group.receive(data, 1, TRC_F32, 1);
    REQUIRE_FALSE(ended);
    return ended.error().message;
  };
  CHECK(words({1, 3}, Does::barrier) == "barrier as operation 1 in a group of ranks 1,3");
  CHECK(words({}, Does::barrier) == "barrier as operation 1");
  CHECK(words({1, 3}, Does::send) == "send(1 f32 from rank 1) as operation 1");
  CHECK(words({1, 3}, Does::receive) == "receive(1 f32 from rank 3) as operation 1");
}

TEST_CASE("a group that connects just as its time passes has been aborted, and so has not connected") {
  auto group = alone();
  const auto deadline = std::chrono::steady_clock::now() + seconds(10);
  const auto connected = group.connect(
      [&]() -> Outcome<Moved> {
        group.look_at_time(deadline, Duration::zero());
        return Moved();
      },
      deadline,
      [](const Outcome<Moved>& failed) {
        CHECK_FALSE(*failed);
        return Failure{.status = TRC_TIMEOUT};
      });
  REQUIRE_FALSE(connected);
  CHECK(connected.error().status == TRC_TIMEOUT);
}

TEST_CASE("an operation after the orderly end is refused") {
  auto group = alone();
  group.close();
  const auto refused = group.barrier();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().status == TRC_INVALID);
}

TEST_CASE("a group of one copies") {
  auto group = alone();
  const std::array<float, 3> in{1, 2, 3};
  std::array<float, 3> out{};
  for (const auto op : {TRC_SUM, TRC_MEAN, TRC_MIN, TRC_MAX, TRC_PROD}) {
    out.fill(0);
    CHECK(group.allreduce(in.data(), out.data(), 3, TRC_F32, op));
    CHECK(out == in);
  }
  out.fill(0);
  CHECK(group.allgather(in.data(), out.data(), 3, TRC_F32));
  CHECK(out == in);
  CHECK(group.broadcast(out.data(), 3, TRC_F32, 0));
  CHECK(group.barrier());
}

TEST_CASE("a wrong argument is refused and leaves the group whole") {
  auto group = alone();
  float value = 1;
  const auto status = [](const Outcome<void>& outcome) { return outcome ? TRC_OK : outcome.error().status; };
  CHECK(status(group.allreduce(&value, &value, 1, static_cast<trc_dtype>(9), TRC_SUM)) == TRC_INVALID);
  CHECK(status(group.allreduce(&value, &value, 1, TRC_F32, static_cast<trc_op>(9))) == TRC_INVALID);
  CHECK(status(group.allreduce(nullptr, &value, 1, TRC_F32, TRC_SUM)) == TRC_INVALID);
  CHECK(status(group.allreduce(&value, &value, 1, TRC_F32, TRC_BOR)) == TRC_INVALID);
  CHECK(status(group.allreduce(&value, &value, 1, TRC_I32, TRC_SUM, {0.5, 1})) == TRC_INVALID);
  CHECK(status(group.allreduce(&value, &value, 1, TRC_F32, TRC_SUM, {1, INFINITY})) == TRC_INVALID);
  CHECK(status(group.allreduce(&value, &value, SIZE_MAX / 4, TRC_F32, TRC_SUM)) == TRC_INVALID);
  CHECK(status(group.reduce(&value, nullptr, 1, TRC_F32, TRC_SUM, 0)) == TRC_INVALID);
  CHECK(status(group.reduce_scatter(&value, &value, 1, TRC_BOOL, TRC_MEAN)) == TRC_INVALID);
  CHECK(status(group.gather(&value, &value, 1, TRC_F32, 1)) == TRC_INVALID);
  CHECK(status(group.scatter(nullptr, &value, 1, TRC_F32, 0)) == TRC_INVALID);
  CHECK(status(group.allgatherv(&value, &value, nullptr, TRC_F32)) == TRC_INVALID);
  CHECK(status(group.send(&value, 1, TRC_F32, 0)) == TRC_INVALID);
  CHECK(status(group.receive(&value, 1, TRC_F32, 1)) == TRC_INVALID);
  CHECK(status(group.broadcast(&value, 1, TRC_F32, 1)) == TRC_INVALID);
  CHECK(status(group.broadcast(&value, 1, TRC_F32, -1)) == TRC_INVALID);
  CHECK(status(group.allgather(&value, nullptr, 1, TRC_F32)) == TRC_INVALID);
  CHECK_FALSE(group.broken());
  CHECK(status(group.allreduce(nullptr, nullptr, 0, TRC_F32, TRC_SUM)) == TRC_OK);
}

TEST_CASE("an alltoallv among several needs two buffers") {
  std::array<float, 2> data{};
  const std::array<std::uint64_t, 2> one_each{1, 1}, one{1, 0};
  Group pair(0, 2, std::make_unique<Fragile>(0), seconds(1), Group::Explain());
  const auto refused = pair.alltoallv(data.data(), one_each.data(), data.data(), one_each.data(), TRC_F32);
  CHECK(refused.error().message == "alltoallv needs different buffers for what it gives and what it gets");
  CHECK_FALSE(pair.broken());
  auto single = alone();
  CHECK(single.alltoallv(data.data(), one.data(), data.data(), one.data(), TRC_F32));
}

TEST_CASE("progress tells a rank that works from one that is stuck or idle") {
  Group::Progress inside;
  Group group(
      0, 2, std::make_unique<Fragile>(1), seconds(60),
      [&](const std::string&, bool, const std::string&) { return inside = group.progress(), Failure(); });
  CHECK(group.progress().mark == 0);
  CHECK(group.progress().operation.empty());
  CHECK(group.barrier());
  const auto idle = group.progress();
  CHECK(idle.sequence() == 1);
  CHECK_FALSE(idle.in_operation());
  CHECK_FALSE(group.barrier());
  CHECK(inside.mark > idle.mark);
  CHECK(inside.sequence() == 2);
  CHECK(inside.operation == "barrier");
  CHECK(inside.in_operation());
  CHECK_FALSE(group.progress().in_operation());
}

TEST_CASE("after a failure every later call fails with the same one, and is not explained again") {
  int asked = 0;
  Group group(0, 2, std::make_unique<Fragile>(1), seconds(60),
              [&](const std::string& operation, bool timed_out, const std::string& text) {
                ++asked;
                CHECK(operation == "barrier as operation 2");
                CHECK_FALSE(timed_out);
                CHECK(text == "cable");
                Failure failure;
                failure.status = TRC_PEER_LOST;
                failure.culprit = 1;
                return failure;
              });
  CHECK(group.barrier());
  for (int round = 0; round < 2; ++round) {
    const auto failed = group.barrier();
    REQUIRE_FALSE(failed);
    CHECK(failed.error().status == TRC_PEER_LOST);
    CHECK(failed.error().culprit == 1);
    CHECK(failed.error().operation == "barrier");
    CHECK(failed.error().sequence == 2);
  }
  CHECK(asked == 1);
  CHECK(group.broken());
}
