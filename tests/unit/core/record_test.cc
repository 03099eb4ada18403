#include "launcher/core/record.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "launcher/core/job_action.h"

using namespace trainrun;
using namespace trainrun::core;

namespace {

template <class Variant, std::size_t... Is>
std::vector<Variant> one_of_each(std::index_sequence<Is...>) {
  return {Variant(std::in_place_index<Is>)...};
}
template <class Variant>
std::vector<Variant> one_of_each() {
  return one_of_each<Variant>(
      std::make_index_sequence<std::variant_size_v<typename Variant::Alternatives>>());
}

// Each is equal to itself alone, and has a name of its own.
template <class Variant>
void check_names_and_equality() {
  const auto all = one_of_each<Variant>();
  std::set<std::string> names, printed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    names.insert(std::visit([](const auto& it) { return std::string(it.record_name); }, all[i]));
    printed.insert(print(all[i]));
    for (std::size_t j = 0; j < all.size(); ++j) CHECK((all[i] == all[j]) == (i == j));
  }
  CHECK(names.size() == all.size());
  CHECK(printed.size() == all.size());
}

}  // namespace

TEST_SUITE("core.record") {
  TEST_CASE("every event, action, notice and cause prints and compares by itself") {
    check_names_and_equality<JobEvent>();
    check_names_and_equality<JobAction>();
    check_names_and_equality<Notice>();
    check_names_and_equality<Cause>();
  }

  TEST_CASE("a record prints its name and its fields") {
    CHECK(print(JobEvent{WorkerNotStarted{WorkerId{3}, ExitStatus::not_started(SpawnStage::exec, 2)}}) ==
          "worker not started worker=3 status={kind=not started number=2 core_dumped=false stage=" +
              to_string(SpawnStage::exec) + " reason=\"\"}");
    CHECK(print(JobAction{SignalWorkers{15, true, {WorkerId{1}, WorkerId{2}}}}) ==
          "signal workers number=15 deep=true workers=[1 2]");
    CHECK(print(Sweep{HostIndex{1}, std::nullopt, {}}) == "sweep host=1 generation=none workers=[]");
    // Moments are told since a beginning; some are not known.
    const Instant began{seconds(1000)};
    CHECK(print(JobAction{Arm{Deadline::grace, began + milliseconds(1500)}}, began) ==
          "arm deadline=grace at=1.500000s");
    CHECK(print(HostLost{HostIndex{1}, "gone"}, began) ==
          "host lost host=1 reason=\"gone\" heard=none gave_us_up=false closed=false");
    CHECK(print(DeadlinePassed{Deadline::settle}) == "deadline passed deadline=settle late=[]");
  }

  TEST_CASE("records that differ in one field are not equal, and have other bytes") {
    const WorkerExited one{WorkerId{1}, ExitStatus::exited(3), Instant{seconds(5)}, milliseconds(2)};
    auto other = one;
    CHECK(one == other);
    SUBCASE("a number") { other.worker = WorkerId{2}; }
    SUBCASE("within a value") { other.status = ExitStatus::killed(3, false); }
    SUBCASE("a time") { other.at += milliseconds(1); }
    SUBCASE("a duration") { other.error = {}; }
    SUBCASE("a text") { other.last_words = "out"; }
    SUBCASE("a set of signals") { other.signalled.add(15); }
    CHECK(one != other);
    CHECK(encode(one) != encode(other));
  }

  TEST_CASE("facts that are shared are compared by what they say") {
    const auto facts = [](std::uint32_t gpus) {
      wire::HostFacts it;
      it.gpus = gpus;
      return std::make_shared<const wire::HostFacts>(it);
    };
    CHECK(HostReady{HostIndex{0}, facts(8)} == HostReady{HostIndex{0}, facts(8)});
    CHECK(HostReady{HostIndex{0}, facts(8)} != HostReady{HostIndex{0}, facts(4)});
    CHECK(HostReady{HostIndex{0}, facts(0)} != HostReady{HostIndex{0}});
  }
}
