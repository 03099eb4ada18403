#include "launcher/base/fault.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "launcher/base/strings.h"

namespace trainrun::fault {
namespace {

struct Point {
  std::string name;
  std::chrono::milliseconds delay{0};
  int error = 0;
  unsigned kill_at = 0, exit_at = 0, stop_at = 0;  // 0: never
  unsigned passed = 0;
};

// Of the process: set once at its start, only read after that.
struct Configured {
  std::string text;
  std::vector<Point> points;
};
Configured& all() {
  static Configured one;
  return one;
}

}  // namespace

void configure(std::string_view text) {
  all() = {std::string(text), {}};
  for (const auto item : split(text, ',')) {
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) continue;
    Point made{std::string(item.substr(0, equals))};
    const auto what = split(item.substr(equals + 1), ':');
    const auto number = what.size() > 1 ? parse_unsigned<unsigned>(what[1]) : std::nullopt;
    if (what[0] == "delay") made.delay = std::chrono::milliseconds(number.value_or(0));
    if (what[0] == "kill") made.kill_at = number.value_or(1);
    if (what[0] == "exit") made.exit_at = number.value_or(1);
    if (what[0] == "stop") made.stop_at = number.value_or(1);
    if (what[0] == "fail") made.error = static_cast<int>(number.value_or(EIO));
    all().points.push_back(std::move(made));
  }
}

const std::string& configured() { return all().text; }

std::optional<int> point(std::string_view name) {
  for (auto& candidate : all().points) {
    if (candidate.name != name) continue;
    const auto passed = std::atomic_ref(candidate.passed).fetch_add(1) + 1;
    if (passed == candidate.kill_at) ::kill(::getpid(), SIGKILL);
    if (passed == candidate.stop_at) ::kill(::getpid(), SIGSTOP);
    if (passed == candidate.exit_at) ::_exit(3);
    if (candidate.delay.count() > 0) std::this_thread::sleep_for(candidate.delay);
    if (candidate.error != 0) return candidate.error;
  }
  return std::nullopt;
}

}  // namespace trainrun::fault
