// An elastic rank for the tests of comm, told what to do by lines on stdin:
//   step      an allreduce; counts the step
//   commit, save, check, stop?   those of the state
//   epoch N   whole epochs of the sampler, committed every three batches, until N are done
//   order     the order of a sampler, to compare with that of elastic_worker.py
//   end       the orderly end
// What happened goes to stdout in lines. `elastic_worker extra` adds a buffer that others lack.
#include <cstdio>
#include <iostream>
#include <string>

#include "trainrun_elastic.hpp"

namespace {

namespace comm = trainrun::comm;
namespace elastic = trainrun::comm::elastic;

constexpr std::size_t samples = 97, batch = 8;

struct Training {
  elastic::State state;
  int steps = 0;
  double sum = 0;  // of the sizes of the worlds in which steps were taken
  std::vector<int> seen = std::vector<int>(samples);
  std::vector<double> extra = std::vector<double>(5);
  elastic::Sampler sampler{samples, 5};

  explicit Training(bool with_extra) {
    state.value("steps", steps).value("sum", sum).buffer("seen", std::span(seen));
    if (with_extra) state.buffer("extra", std::span(extra));
    sampler.attach(state);
    state.on_reset(
        [](int before, int now) { say("reset " + std::to_string(before) + " " + std::to_string(now)); });
  }
  static void say(const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
  void report(const comm::World& world, const char* what) const {
    std::printf("%s generation %u rank %d of %d steps %d sum %g\n", what, world.generation(), world.rank(),
                world.size(), steps, sum);
    std::fflush(stdout);
  }

  // Each rank counts what it really used, so a sample that two ranks take, or none, shows.
  void take_batch(const comm::World& world) {
    const auto all = sampler.next(batch);
    std::vector<int> used(samples);
    for (const auto index : elastic::Sampler::share(all, world.rank(), world.size())) ++used[index];
    world.group().allreduce(std::span(used));
    for (std::size_t i = 0; i < samples; ++i) seen[i] += used[i];
    sampler.record(all.size());
    ++steps;
    report(world, "batch");
  }
  void epochs(comm::World& world, std::uint64_t until) {
    while (sampler.epoch() < until) {
      take_batch(world);
      if (sampler.done()) {
        int wrong = 0;
        for (auto& count : seen) wrong += std::exchange(count, 0) == 1 ? 0 : 1;
        say("epoch " + std::to_string(sampler.epoch()) + " wrong " + std::to_string(wrong));
        sampler.next_epoch();
      }
      if (steps % 3 == 0 || sampler.epoch() >= until) state.commit(world);
    }
    say("all epochs");
  }
  static void say_order() {
    elastic::Sampler fresh(11, 5);
    fresh.next_epoch();
    std::string text;
    for (const auto index : fresh.next(11)) text += (text.empty() ? "" : ", ") + std::to_string(index);
    say("order [" + text + "]");
  }
  void obey(comm::World& world) {
    report(world, "formed");
    for (std::string line; std::getline(std::cin, line);) {
      if (line == "step") {
        sum += world.group().allreduce(1.0);
        ++steps;
      }
      if (line == "commit") state.commit(world);
      if (line == "save") state.save();
      if (line == "check") elastic::State::check_host_updates(world);
      if (line == "stop?") say(elastic::State::should_stop(world) ? "stop" : "stay");
      if (line == "order") say_order();
      if (line.rfind("epoch ", 0) == 0) epochs(world, std::stoul(line.substr(6)));
      if (line == "end") return;
      report(world, line.c_str());
    }
    throw std::runtime_error("no more orders");
  }
};

}  // namespace

int main(int argc, char** argv) {
  Training training(argc > 1 && std::string(argv[1]) == "extra");
  try {
    const auto end = elastic::run(training.state, [&](comm::World& world) { training.obey(world); });
    Training::say(end == elastic::End::removed ? "removed" : "finished");
    return 0;
  } catch (const comm::Error& error) {
    std::printf("failed %s: %s\n", trc_status_name(error.status), error.what());
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
  }
  return 3;
}
