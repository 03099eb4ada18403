// What is enqueued for a list of tensors, in which order: over a driver and an NCCL that only note it.
#include "comm/backends/nccl/fusion.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

using namespace trainrun::comm;
using namespace trainrun::comm::nccl;

namespace {

std::vector<std::string> noted;
std::string failing;  // the call that fails

Cuda note(std::string call) {
  const bool fails = !failing.empty() && call.starts_with(failing);
  noted.push_back(std::move(call));
  return fails ? Cuda{999} : Cuda::success;
}

int first_stream = 0, second_stream = 0;
std::string name_of(Stream stream) { return stream == &first_stream ? "first" : "second"; }

CudaDriver driver() {
  CudaDriver cuda{};
  cuda.get_error_name = [](Cuda, const char** text) {
    *text = "A_NAME";
    return Cuda::success;
  };
  cuda.allocate = [](std::uint64_t* pointer, std::size_t bytes) {
    *pointer = 1 << 20;
    return note(fmt::format("allocate {}", bytes));
  };
  cuda.release = [](std::uint64_t) { return note("free"); };
  cuda.event_create = [](void** event, unsigned) {
    *event = &noted;
    return note("create event");
  };
  cuda.event_record = [](void*, void* stream) { return note("record on " + name_of(stream)); };
  cuda.event_destroy = [](void*) { return note("destroy event"); };
  cuda.stream_wait_event = [](void* stream, void*, unsigned) { return note("wait on " + name_of(stream)); };
  cuda.launch = [](void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void* stream,
                   void** parameters, void**) {
    const auto& batch = *static_cast<const Batch*>(parameters[0]);
    return note(fmt::format("launch {} x{} on {}", batch.count, batch.factor, name_of(stream)));
  };
  return cuda;
}

Functions nccl_that_notes() {
  Functions call{};
  call.all_reduce = [](const void*, void*, std::size_t count, Type, Reduce, Handle, Stream stream) {
    noted.push_back(fmt::format("allreduce {} on {}", count, name_of(stream)));
    return Answer::in_progress;
  };
  return call;
}

// Three tensors that take one round and a half of a buffer of 4 KiB.
FusedList list_on(Stream stream) {
  static std::vector<char> memory(16384);
  const auto at = [](std::size_t bytes) { return memory.data() + bytes; };
  return {{{at(0), at(0), 1000, TRC_F32},
           {at(4000), at(4000), 1000, TRC_F16},
           {at(6000), at(6000), 1072, TRC_F32}},
          3072,
          TRC_F16,
          Type::f16,
          Reduce::sum,
          0.5F,
          2,
          stream};
}

void run(Fusion& fusion, const FusedList& list) {
  const auto call = nccl_that_notes();
  for (std::uint64_t number = 0; number < fusion.steps(list) && !fusion.problem(); ++number) {
    noted.push_back("step");
    fusion.step(list, number, call, nullptr);
  }
}

using Calls = std::vector<std::string>;

}  // namespace

TEST_CASE("nccl_fusion: a list goes in rounds, and another stream waits for the one before") {
  noted.clear();
  const auto cuda = driver();
  {
    Fusion fusion(cuda, 4096);
    run(fusion, list_on(&first_stream));
    CHECK(noted == Calls{"step", "allocate 4096", "create event", "launch 3 x0.5 on first",
                         "allreduce 2048 on first", "step", "launch 3 x2 on first", "launch 1 x0.5 on first",
                         "allreduce 1024 on first", "step", "launch 1 x2 on first", "record on first"});
    noted.clear();
    run(fusion, list_on(&second_stream));
    CHECK(noted.at(1) == "wait on second");
    CHECK(noted.at(2) == "launch 3 x0.5 on second");
    CHECK(noted.back() == "record on second");
    noted.clear();
    fusion.release();
  }
  CHECK(noted == Calls{"destroy event", "free"});
}

TEST_CASE("nccl_fusion: what fails is told, and nothing is enqueued after it") {
  struct Case {
    const char *fails, *last, *text;
    Machine::Problem::Kind kind;
  };
  using Kind = Machine::Problem::Kind;
  const auto cuda = driver();
  for (const auto& [fails, last, text, kind] :
       {Case{"allocate", "allocate 4096",
             "cuMemAlloc of 4096 bytes for lists of tensors (TRAINRUN_FUSION_BYTES): A_NAME (999)",
             Kind::library},
        Case{"create", "create event", "cuEventCreate: A_NAME (999)", Kind::context},
        Case{"launch 3 x0.5", "launch 3 x0.5 on first", "cuLaunchKernel: A_NAME (999)", Kind::context},
        Case{"launch 3 x2", "launch 3 x2 on first", "cuLaunchKernel: A_NAME (999)", Kind::context},
        Case{"record", "record on first", "cuEventRecord: A_NAME (999)", Kind::context}}) {
    noted.clear();
    failing = fails;
    Fusion fusion(cuda, 4096);
    run(fusion, list_on(&first_stream));
    failing.clear();
    REQUIRE(fusion.problem());
    CHECK(noted.back() == last);
    CHECK(fusion.problem()->text == text);
    CHECK(fusion.problem()->kind == kind);
  }
}
