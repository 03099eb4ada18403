// Every message between launcher and agent. The first byte is its type, the rest is its payload.
#include "launcher/wire/messages.h"

#include <algorithm>
#include <array>

#include "launcher/core/addresses.h"
#include "launcher/core/binding.h"
#include "launcher/wire/death_messages.h"
#include "launcher/wire/frame.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using namespace trainrun::wire;

namespace {

// What only some messages promise. Numbers are whatever the peer likes.
template <class Message>
void check_meaning(const Message&) {}
void check_meaning(const Exited& exited) {
  const auto status = ExitStatus::from_wait(exited.raw_status);
  FUZZ_CHECK(!status.describe().empty());
  FUZZ_CHECK(status.exit_code() >= 0 && status.exit_code() <= 255);
}
void check_meaning(const NotStarted& failure) {
  FUZZ_CHECK(failure.stage <= SpawnStage::pmix);
  const auto status = ExitStatus::not_started(failure.stage, failure.error);
  FUZZ_CHECK(!status.describe().empty());
}
void check_meaning(const OutputBytes& output) {
  FUZZ_CHECK(output.stream == Output::out || output.stream == Output::err);
}
void check_meaning(const Start& start) { FUZZ_CHECK(start.stdin_mode <= StdinMode::inherit); }
void check_meaning(const Prepared& prepared) {
  for (const auto& problem : prepared.problems) FUZZ_CHECK(problem.kind <= Problem::Kind::bad_pmix);
}
void check_meaning(const Greeted& greeted) {
  const auto& facts = greeted.facts;
  FUZZ_CHECK(core::usable_cores(facts) >= 1);
  JobSpec job;
  job.hosts.hosts = {Host{"gpu1"}, Host{"gpu2"}};
  const core::FactsByHost by_host{{HostIndex{0}, &facts}, {HostIndex{1}, &facts}};
  static_cast<void>(core::address_of(HostIndex{0}, by_host, job));
  for (const auto bind : {BindTo::none, BindTo::core, BindTo::numa, BindTo::socket, BindTo::automatic}) {
    job.bind_to = bind;
    job.cpus_per_rank = static_cast<int>(bind) % 3;
    job.gpus_per_rank = 1;
    for (const std::uint32_t size : {1u, 3u}) {
      const auto cpus = core::cpus_for(job, facts, size - 1, size);
      if (!cpus) check_error(cpus.error());
      if (const auto gpus = core::gpus_suffice(job, facts, size); !gpus) check_error(gpus.error());
    }
  }
}

template <class Message>
bool check_as(std::uint8_t type, std::string_view payload) {
  if (type != Message::type) return false;
  const auto message = from_frame<Message>(Frame{type, payload});
  if (!message) return true;
  accepted();
  check_meaning(*message);
  const auto bytes = to_frame(*message);
  const auto again = from_frame<Message>(Frame{type, std::string_view(bytes).substr(frame_header)});
  FUZZ_CHECK(again && to_frame(*again) == bytes);
  return true;
}

template <class... Message>
constexpr bool have_numbers_of_their_own() {
  std::array numbers{Message::type...};
  std::sort(numbers.begin(), numbers.end());
  return std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end();
}

template <class... Message>
void check_all(std::uint8_t type, std::string_view payload) {
  static_assert(have_numbers_of_their_own<Message...>());
  static_cast<void>((check_as<Message>(type, payload) || ...));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  check_all<Greet, OpenJob, Start, Signal, Stdin, Credit, Ping, Pause, HoldPort, OpenDoor, Stop, Sweep,
            Inspect, World, OpenStream, BreakConnections, StreamData, StreamTaken, StreamRefused, Gather,
            Gathered, GatherFailed, Ask, Answer, ExchangeLost, Aborted, ErrorFile, Hello, NoAgent, Greeted,
            Prepared, Started, NotStarted, OutputBytes, Exited, Finished, Pong, Note, StdinWanted, StdinTaken,
            PortHeld, DoorOpened, StreamOpened, Stopped, Swept, Leaving, StoreSeen, Inspected, InspectionDone,
            RankDied>(data[0], text_of(data, size).substr(1));
  return 0;
}
