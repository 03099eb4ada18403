#include "launcher/wire/frame.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "launcher/wire/messages.h"

using namespace trainrun;
using namespace trainrun::wire;

namespace {

Start sample_start() {
  Start start;
  start.worker = WorkerId{7};
  start.generation = Generation{3};
  start.argv = {"./train", "--lr", "0.1", ""};
  start.env = {{"RANK", "5"}, {"EMPTY", ""}};
  start.directory = "/home/u";
  start.cpus = {0, 5, 191};
  start.stdin_mode = StdinMode::relay;
  return start;
}

std::vector<Frame> feed(FrameReader& reader, std::string_view bytes) {
  const auto space = reader.space();
  REQUIRE(space.size >= bytes.size());
  std::memcpy(space.data, bytes.data(), bytes.size());
  reader.filled(bytes.size());
  std::vector<Frame> frames;
  while (auto frame = reader.next()) frames.push_back(*frame);
  return frames;
}

}  // namespace

TEST_CASE("a message comes out of a frame as it went in") {
  FrameReader reader;
  const auto frames = feed(reader, to_frame(sample_start()));
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].type == Start::type);
  const auto back = from_frame<Start>(frames[0]);
  REQUIRE(back);
  CHECK(back->worker == WorkerId{7});
  CHECK(back->argv == sample_start().argv);
  CHECK(back->env == sample_start().env);
  CHECK(back->cpus == sample_start().cpus);
  CHECK(back->stdin_mode == StdinMode::relay);
}

TEST_CASE("extreme numbers survive") {
  Exited exited{WorkerId{0xffffffff}, -1, INT64_MIN, UINT64_MAX, std::string(1000, '\0')};
  FrameReader reader;
  const auto frames = feed(reader, to_frame(exited));
  REQUIRE(frames.size() == 1);
  const auto back = from_frame<Exited>(frames[0]);
  REQUIRE(back);
  CHECK(back->raw_status == -1);
  CHECK(back->at_ns == INT64_MIN);
  CHECK(back->peak_rss_kib == UINT64_MAX);
  CHECK(back->out_of_memory.size() == 1000);
}

TEST_CASE("what elastic jobs say comes back as it was said") {
  const auto back = [](const auto& message) {
    using Message = std::decay_t<decltype(message)>;
    const auto bytes = to_frame(message);
    const auto payload = std::string_view(bytes).substr(frame_header);
    const auto whole = from_frame<Message>({Message::type, payload});
    REQUIRE(whole);
    for (std::size_t n = 0; n < payload.size(); ++n)
      CHECK_FALSE(from_frame<Message>({Message::type, payload.substr(0, n)}));
    CHECK(to_frame(*whole) == bytes);
    return *whole;
  };
  OpenJob job;
  job.elastic = true;
  CHECK(back(job).elastic);
  const auto sweep = back(Sweep{UINT32_MAX, {WorkerId{1}, WorkerId{UINT32_MAX}}, true});
  CHECK(sweep.sequence == UINT32_MAX);
  CHECK(sweep.workers == std::vector<WorkerId>{WorkerId{1}, WorkerId{UINT32_MAX}});
  CHECK(sweep.now);
  const auto swept = back(Swept{3, 4, true, 5});
  CHECK(swept.sequence == 3);
  CHECK(swept.leftovers == 4);
  CHECK(swept.killed);
  CHECK(swept.stuck == 5);
  const auto inspect = back(Inspect{6, 7});
  CHECK(inspect.sequence == 6);
  CHECK(inspect.sample_ms == 7);
  const auto inspected =
      back(Inspected{8, WorkerId{9}, "T", UINT64_MAX, 10, "futex_wait", std::string(65536, '\n')});
  CHECK(inspected.sequence == 8);
  CHECK(inspected.worker == WorkerId{9});
  CHECK(inspected.state == "T");
  CHECK(inspected.cpu_ms == UINT64_MAX);
  CHECK(inspected.io_bytes == 10);
  CHECK(inspected.waits_in == "futex_wait");
  CHECK(inspected.stack == std::string(65536, '\n'));
  CHECK(back(InspectionDone{11}).sequence == 11);
  CHECK(back(Leaving{"the agent got SIGTERM"}).reason == "the agent got SIGTERM");
}

TEST_CASE("two frames are found however the stream is cut") {
  const auto bytes = to_frame(sample_start()) + to_frame(Ping{9});
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    FrameReader reader;
    auto count = feed(reader, std::string_view(bytes).substr(0, cut)).size();
    const auto rest = feed(reader, std::string_view(bytes).substr(cut));
    count += rest.size();
    CHECK(count == 2);
    if (!rest.empty()) CHECK(from_frame<Ping>(rest.back())->sequence == 9);
  }
}

TEST_CASE("a frame that claims too much or nothing ends the stream") {
  for (const std::string& header :
       {std::string("\x00\x00\x00\x00\x01", 5), std::string("\x7f\xff\xff\xff\x01", 5)}) {
    FrameReader reader;
    CHECK(feed(reader, header).empty());
    CHECK(reader.failed());
  }
}

TEST_CASE("a payload cut short or with bytes left over is refused") {
  const auto whole = to_frame(sample_start());
  const auto payload = std::string_view(whole).substr(frame_header);
  for (std::size_t n = 0; n < payload.size(); ++n)
    CHECK_FALSE(from_frame<Start>({Start::type, payload.substr(0, n)}));
  CHECK_FALSE(from_frame<Start>({Start::type, std::string(payload) + "x"}));
}

TEST_CASE("an enumerator that this version does not know is refused, however it is written") {
  const auto refused = [](auto message, std::size_t at, std::string_view bytes) {
    auto frame = to_frame(message);
    frame.replace(at, 1, bytes);
    return !from_frame<decltype(message)>(
        Frame{decltype(message)::type, std::string_view(frame).substr(frame_header)});
  };
  const OutputBytes output{WorkerId{1}, Output::err, "x"};
  CHECK_FALSE(refused(output, 6, "\x01"));
  for (const auto* stream : {"\x03", "\x7f", "\x81\x02"})
    CHECK(refused(output, 6, stream));  // the last is 257
  CHECK(refused(output, 6, std::string_view("\0", 1)));
  CHECK(refused(NotStarted{WorkerId{1}, SpawnStage::exec, 2, 0}, 6, "\x08"));
}

TEST_CASE("random payloads never crash and never make a list longer than their bytes") {
  std::mt19937 random(20261121);
  for (int i = 0; i < 20000; ++i) {
    std::string payload(random() % 64, '\0');
    for (auto& c : payload) c = static_cast<char>(random());
    if (const auto start = from_frame<Start>({Start::type, payload}))
      CHECK(start->argv.size() <= payload.size());
    if (const auto job = from_frame<OpenJob>({OpenJob::type, payload}))
      CHECK(job->env.size() <= payload.size());
    if (const auto ready = from_frame<Prepared>({Prepared::type, payload}))
      CHECK(ready->problems.size() <= payload.size());
  }
}
