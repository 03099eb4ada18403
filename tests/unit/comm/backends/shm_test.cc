// Shared memory: its life, the gate in it, and how ranks that cannot share it find that out together.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <future>

#include "comm/backends/shm/meeting.h"
#include "comm/backends/shm/usable_cores.h"
#include "tests/unit/comm/backends/ranks.h"
#include "tests/unit/rendezvous/server.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

constexpr auto never = std::chrono::hours(1);
constexpr auto time_limit = std::chrono::seconds(60);

Deadline in(std::chrono::steady_clock::duration time) { return std::chrono::steady_clock::now() + time; }

struct Folder {
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] bool empty() const { return std::filesystem::is_empty(path); }
  std::string path = "/dev/shm/trainrun-test-XXXXXX";
};

// What the ranks of a world come to, each on a thread; `change` makes one different from the others.
std::vector<ShmMet> meet(std::uint32_t size, const std::function<void(ShmMeeting&)>& change) {
  rendezvous::Server server(size);
  std::vector<ShmMet> met(size);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      auto client = server.client();
      ShmMeeting meeting{client, rank, size, in(time_limit)};
      change(meeting);
      met[rank] = meet_in_memory(meeting).value();
    });
  for (auto& thread : threads) thread.join();
  return met;
}

}  // namespace

TEST_CASE("a segment is the same memory for all that map it, of one length for ever, and leaves nothing") {
  const Folder folder;
  for (const auto kind : {Segment::Kind::anonymous, Segment::Kind::file}) {
    auto first = Segment::create(kind, {4096, 8192}, folder.path).value();
    auto second = Segment::map(first.place(), {4096, 8192}).value();
    const bool all = kind == Segment::Kind::anonymous;
    CHECK(first.size() == (all ? 8192 : 4096));
    CHECK(second.size() == first.size());
    first.data()[1000] = 'x';
    CHECK(second.data()[1000] == 'x');
    const auto other = Segment::map(first.place(), {2048, 12288});
    REQUIRE_FALSE(other);
    CHECK(other.error().message.find(all ? "it has 8192 bytes, not 12288" : "it has 4096 bytes, not 12288") !=
          std::string::npos);
    struct stat status {};
    REQUIRE(::stat(first.place().c_str(), &status) == 0);
    if (kind == Segment::Kind::file) CHECK((status.st_mode & 0777) == 0600);
    if (kind == Segment::Kind::anonymous) CHECK(::truncate(first.place().c_str(), 4096) != 0);
    const auto place = first.place();
    first.close_door();
    CHECK_FALSE(Segment::map(place, {4096, 8192}));
    CHECK(Segment::provide(second.data(), second.size()));
    CHECK(second.data()[1000] == 'x');
    CHECK_FALSE(Segment::provide(nullptr, 8192));
    Segment::give_back(second.data(), 4096);
    CHECK(first.data()[1000] == 0);
  }
  CHECK(folder.empty());
}

TEST_CASE("a segment that cannot be had is an error that says what and why") {
  const auto none = Segment::create(Segment::Kind::file, {4096, 4096}, "/no/such/folder");
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("/no/such/folder/") != std::string::npos);
  CHECK(none.error().message.find("No such file or directory") != std::string::npos);
  CHECK_FALSE(Segment::map("/proc/self/fd/9999", {4096, 4096}));
}

TEST_CASE("nobody passes a gate before the last, again and again, also where the numbers of steps wrap") {
  for (const bool spins : {false, true}) {
    for (const std::uint32_t begin : {0U, 0xffffffffU - 20, 0x7fffffffU - 20}) {
      GateWords words{};
      constexpr std::uint32_t ranks = 3;
      std::array<Header, 2 * ranks> headers{};
      std::array<std::atomic<std::uint32_t>, ranks> done{};
      std::vector<std::thread> threads;
      std::atomic<int> wrong{0};
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
          Gate gate(words, headers.data(), rank, ranks, spins, begin);
          for (std::uint32_t step = 1; step <= 50; ++step) {
            done[rank] = step;
            if (!gate.pass(in(time_limit))) ++wrong;
            for (const auto& other : done)
              if (other < step) ++wrong;
          }
        });
      for (auto& thread : threads) thread.join();
      CHECK(wrong == 0);
      CHECK(words.sleepers == 0);
    }
  }
}

TEST_CASE("an abort ends who waits at a gate and who comes later, whether they spin or sleep") {
  for (const bool spins : {false, true}) {
    for (int round = 0; round < 50; ++round) {
      GateWords words{};
      std::array<Header, 4> headers{};
      Gate first(words, headers.data(), 0, 2, spins), second(words, headers.data(), 1, 2, spins);
      auto waits = std::async(std::launch::async, [&] { return first.pass(in(never)).has_value(); });
      if (round % 2 == 0)
        while (headers[0].arrived == 0) std::this_thread::yield();
      second.abort();  // before it waits, while it does, or as it goes to sleep
      REQUIRE(waits.wait_for(time_limit) == std::future_status::ready);
      CHECK_FALSE(waits.get());
      CHECK_FALSE(second.pass(in(never)));
    }
  }
}

TEST_CASE("a gate whose time has passed says so") {
  GateWords words{};
  std::array<Header, 4> headers{};
  Gate gate(words, headers.data(), 0, 2, false);
  const auto passed = gate.pass(in(std::chrono::milliseconds(20)));
  REQUIRE_FALSE(passed);
  CHECK(passed.error().text == "not all ranks came in time");
}

TEST_CASE("ranks that call different things are all told the same two of them, and no buffer is written") {
  Ranks ranks(shm_backends(3));
  std::vector<std::vector<float>> data(3);
  const auto ended = ranks.all([&](Group& group, int rank) -> Outcome<void> {
    auto& mine = data[static_cast<std::size_t>(rank)];
    mine.assign(rank == 1 ? 10 : 100'000, 1);  // one small enough for one step, two that take many
    return group.allreduce(mine.data(), mine.data(), mine.size(), TRC_F32, TRC_SUM);
  });
  for (const auto& one : ended) {
    REQUIRE_FALSE(one);
    CHECK(one.error().status == TRC_MISMATCH);
    CHECK(one.error().message ==
          "rank 0 called allreduce(sum of 100000 f32) as operation 1, rank 1 called allreduce(sum of 10 f32) "
          "as "
          "operation 1 (only rank 1 differs)");
  }
  for (const auto& mine : data) CHECK(std::all_of(mine.begin(), mine.end(), [](float x) { return x == 1; }));
}

TEST_CASE("who alone differs is told, and nobody where there is no such one") {
  const auto told = [](std::uint32_t size, const std::function<std::size_t(int)>& count) {
    Ranks ranks(shm_backends(size));
    std::vector<std::string> words;
    for (const auto& one : ranks.all([&](Group&group, int rank) -> Outcome<void> {
           std::vector<float> mine(count(rank));
           return group.allreduce(mine.data(), mine.data(), mine.size(), TRC_F32, TRC_SUM);
         }))
      words.push_back(one.error().message);
    CHECK(std::equal(words.begin() + 1, words.end(), words.begin()));
    return words.front().substr(words.front().find(", ") + 2);
  };
  CHECK(told(4, [](int rank) { return rank == 0 ? 5U : 4U; }) ==
        "rank 1 called allreduce(sum of 4 f32) as operation 1 (only rank 0 differs)");
  CHECK(told(4, [](int rank) { return rank == 3 ? 5U : 4U; }) ==
        "rank 3 called allreduce(sum of 5 f32) as operation 1 (only rank 3 differs)");
  CHECK(told(2, [](int rank) { return rank == 0 ? 5U : 4U; }) ==
        "rank 1 called allreduce(sum of 4 f32) as operation 1");
  CHECK(told(4, [](int rank) { return rank < 2 ? 5U : 4U; }) ==
        "rank 2 called allreduce(sum of 4 f32) as operation 1");
  CHECK(told(3, [](int rank) { return static_cast<std::size_t>(rank + 1); }) ==
        "rank 1 called allreduce(sum of 2 f32) as operation 1");
}

TEST_CASE("the same in a first large operation, which takes a step more") {
  for (const std::size_t small : {std::size_t{10}, std::size_t{1} << 20}) {
    Ranks ranks(shm_backends(3));
    std::vector<std::vector<float>> data(3);
    const auto ended = ranks.all([&](Group& group, int rank) -> Outcome<void> {
      auto& mine = data[static_cast<std::size_t>(rank)];
      mine.assign(rank == 1 ? small : std::size_t{1} << 20, 1);
      return group.allreduce(mine.data(), mine.data(), mine.size(), TRC_F32, rank == 1 ? TRC_MAX : TRC_SUM);
    });
    for (const auto& one : ended) {
      REQUIRE_FALSE(one);
      CHECK(one.error().status == TRC_MISMATCH);
    }
    for (const auto& mine : data)
      CHECK(std::all_of(mine.begin(), mine.end(), [](float x) { return x == 1; }));
  }
}

TEST_CASE("ranks of one host meet in memory, by either way, and nothing is left of it") {
  const Folder folder;
  for (const auto kind : {Segment::Kind::anonymous, Segment::Kind::file}) {
    auto met = meet(3, [&](ShmMeeting& meeting) {
      meeting.kinds = {kind};
      meeting.folder = folder.path;
    });
    Backends backends;
    for (auto& one : met) {
      REQUIRE_MESSAGE(one.backend, one.why_not);
      backends.push_back(std::move(one.backend));
    }
    CHECK(folder.empty());
    Ranks(std::move(backends)).all_do([](Group& group, int) { return group.barrier(); });
  }
}

TEST_CASE("where the first way fails the second is taken, and where both fail everybody hears why") {
  const Folder folder;
  auto met = meet(2, [&](ShmMeeting& meeting) {
    meeting.kinds = {Segment::Kind::file, Segment::Kind::anonymous};
    meeting.folder = "/no/such/folder";
  });
  for (const auto& one : met) CHECK_MESSAGE(one.backend, one.why_not);
  met = meet(2, [&](ShmMeeting& meeting) {
    meeting.kinds = {Segment::Kind::file};
    meeting.folder = "/no/such/folder";
  });
  for (const auto& one : met) {
    CHECK_FALSE(one.backend);
    CHECK_FALSE(one.objected);
    CHECK(one.why_not.find("rank 0: /no/such/folder/") == 0);
  }
}

TEST_CASE("when one rank does not want to, none does, whoever it is") {
  for (const std::uint32_t against : {0U, 2U}) {
    const auto met = meet(3, [&](ShmMeeting& meeting) {
      if (meeting.rank == against) meeting.objection = "TRAINRUN_COMM_BACKEND=gloo";
    });
    for (const auto& one : met) {
      CHECK_FALSE(one.backend);
      CHECK(one.objected);
    }
  }
}

TEST_CASE("cores that a cgroup's limit allows") {
  CHECK(cores_of_limit("max 100000\n") == std::nullopt);
  CHECK(cores_of_limit("150000 100000\n") == 1);
  CHECK(cores_of_limit("400000 100000\n") == 4);
  CHECK(cores_of_limit("50000 100000\n") == 1);
  CHECK(cores_of_limit("") == std::nullopt);
  CHECK(cores_of_limit("1 0") == std::nullopt);
}

namespace {

std::size_t held(const std::string& place) {
  struct stat status {};
  REQUIRE(::stat(place.c_str(), &status) == 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

const Layout* layout_of_late = nullptr;  // of the test that runs

// Of a rank whose memory is not there, which says so after all others have come to the end of the step.
bool provide_late_and_not(char*, std::size_t) {
  const auto due = in(time_limit);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    while (rank != 1 && layout_of_late->headers()[2 * rank].arrived == 0 &&
           std::chrono::steady_clock::now() < due)
      std::this_thread::yield();
  return false;
}

// All of them, each on a thread of its own.
void all_alltoall(std::vector<std::unique_ptr<ShmBackend>>& ranks, std::size_t count) {
  const auto size = static_cast<std::uint32_t>(ranks.size());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<std::uint8_t> give(count * size, static_cast<std::uint8_t>(rank + 1)), get(count * size);
      Descriptor what;
      what.call = Call::alltoall;
      what.dtype = TRC_U8;
      what.count = count;
      if (const auto done = ranks[rank]->perform(what, {give.data(), get.data()}, in(time_limit));
          !done || *done)
        ++wrong;
      for (std::size_t i = 0; i < get.size(); ++i) wrong += get[i] != i / count + 1 ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE(
    "the first large operation takes the memory of large pieces, all of it, or none where one rank has "
    "none") {
  constexpr std::uint32_t size = 4;
  constexpr auto bytes = Layout::bytes(size);
  for (const bool refused : {false, true}) {
    CAPTURE(refused);
    auto first = Segment::create(Segment::Kind::anonymous, bytes, {}).value();
    const auto place = first.place();
    const Layout layout(first.data(), size);
    layout_of_late = &layout;
    std::vector<std::unique_ptr<ShmBackend>> ranks;
    for (std::uint32_t rank = 1; rank < size; ++rank)
      ranks.push_back(
          std::make_unique<ShmBackend>(Segment::map(place, bytes).value(), rank, size, false,
                                       refused && rank == 1 ? provide_late_and_not : Segment::provide));
    ranks.insert(ranks.begin(), std::make_unique<ShmBackend>(std::move(first), 0, size, false));
    CHECK(held(place) == bytes.first);
    if (!refused) all_alltoall(ranks, large_from / size - 1);
    CHECK(held(place) == bytes.first);
    for (int again = 0; again < 2; ++again) {
      all_alltoall(ranks, large_from / size);
      CHECK(held(place) == (refused ? bytes.first : bytes.all));
    }
    all_alltoall(ranks, 10);
  }
}

TEST_CASE("memory above the limit for a file is refused, and the process goes on") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{100'000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Folder folder;
  for (const auto kind : {Segment::Kind::anonymous, Segment::Kind::file}) {
    const auto made = Segment::create(kind, {1 << 20, 1 << 21}, folder.path);
    REQUIRE_FALSE(made);
    CHECK(made.error().message ==
          "1048576 bytes are above the limit of 100000 for a file (ulimit -f): File too large");
    CHECK(Segment::create(kind, {65536, 1 << 20}, folder.path).value().size() == 65536);
  }
  CHECK(folder.empty());
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
}
