#include "tests/fuzz/self_test.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "tests/fuzz/campaign.h"
#include "tests/fuzz/check.h"

namespace trainrun::fuzz {
namespace {

volatile int sink = 0;

int sound(const std::uint8_t* data, std::size_t size) {
  if (text_of(data, size).starts_with("fuzz")) accepted();
  return 0;
}
// Each is broken only for an input that the corpus does not hold, but that is a change or two away.
int breaks_a_check(const std::uint8_t* data, std::size_t size) {
  FUZZ_CHECK(!text_of(data, size).starts_with("fuzzfuzz"));
  return 0;
}
int reads_beyond(const std::uint8_t* data, std::size_t size) {
  if (size == 3) sink = data[size];
  return 0;
}
int overflows(const std::uint8_t*, std::size_t size) {
  if (size > 4) sink = std::numeric_limits<int>::max() - 4 + static_cast<int>(size);
  return 0;
}
int hangs(const std::uint8_t* data, std::size_t size) {
  while (text_of(data, size).find("zf") != std::string_view::npos) sink = 1;
  return 0;
}
int leaks(const std::uint8_t*, std::size_t size) {
  if (size > 6) {
    int* volatile lost = new int(1);  // volatile: the compiler would leave it out
    sink = *lost;
  }
  return 0;
}
int refuses(const std::uint8_t*, std::size_t) { return 0; }

Campaign campaign_of(std::string_view name, int (*target)(const std::uint8_t*, std::size_t)) {
  return {.target = {name, target},
          .seeds = {{"good", "fuzz"}, {"other", "fuzz"}},
          .runs = 5000,
          .hang_seconds = 2};
}

bool wrong(const char* what, std::string_view name) {
  fmt::print("self-test: {}: {}\n", name, what);
  return true;
}

bool goes_unseen(std::string_view name, int (*target)(const std::uint8_t*, std::size_t), bool with_input) {
  auto campaign = campaign_of(name, target);
  campaign.seeds.erase(campaign.seeds.begin());
  const auto found = run(campaign);
  if (found.passed) return wrong("its fault was not found", name);
  if (found.has_input != with_input) return wrong("the input was not kept, or the wrong one", name);
  if (!with_input) return false;
  campaign.seeds = {{"other", found.input}};
  campaign.runs = 0;
  return run(campaign).passed && wrong("the input that was kept does no harm", name);
}

}  // namespace

int self_test() {
  const auto good = run(campaign_of("sound", sound));
  bool bad = !good.passed && wrong(good.how.c_str(), "sound");
  bad |= good.accepted < 100 && wrong("nothing like its corpus was tried", "sound");
  bad |= run(campaign_of("refuses", refuses)).passed && wrong("a good corpus file may be refused", "refuses");
  bad |= goes_unseen("breaks_a_check", breaks_a_check, true);
  bad |= goes_unseen("reads_beyond", reads_beyond, true);
  bad |= goes_unseen("overflows", overflows, true);
  bad |= goes_unseen("hangs", hangs, true);
  bad |= goes_unseen("leaks", leaks, false);
  if (!bad) fmt::print("self-test: all planted faults were found\n");
  return bad ? 1 : 0;
}

}  // namespace trainrun::fuzz
