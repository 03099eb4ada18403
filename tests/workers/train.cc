#include "train.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>

namespace {

constexpr std::uint32_t max_ranks = 256;
constexpr useconds_t look_again = 1000;

// What the ranks of one generation share: a mapped file, which starts as zeros.
struct Lockstep {
  std::atomic<std::uint32_t> begun;                        // 1 + the step that all begin with
  std::atomic<std::uint32_t> last;                         // 1 + the step after which all end
  std::array<std::atomic<std::uint32_t>, max_ranks> done;  // steps of each rank in this generation
};

std::string variable(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

std::uint32_t number(const char* name) {
  return static_cast<std::uint32_t>(std::strtoul(variable(name).c_str(), nullptr, 10));
}

void say(const std::string& text) {
  if (write(1, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(99);
}

// One write each, so lines of several processes never mix.
void append(const std::string& path, const std::string& line) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(98);
  close(fd);
}

std::uint32_t saved_step(const std::string& folder) {
  std::uint32_t step = 0;
  std::ifstream(folder + "/checkpoint") >> step;
  return step;
}

// A process of an old generation that nobody could reach may still be here: it must not take anything back.
void save(const std::string& folder, std::uint32_t step) {
  if (saved_step(folder) >= step) return;
  const auto next =
      folder + "/checkpoint." + std::to_string(getpid()) + "." + variable("TRAINRUN_GENERATION");
  std::ofstream(next) << step << "\n";
  if (rename(next.c_str(), (folder + "/checkpoint").c_str()) != 0) _exit(97);
}

Lockstep& lockstep_of(const std::string& folder, const std::string& generation) {
  const auto path = folder + "/lockstep." + generation;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Lockstep)) != 0) _exit(96);
  void* page = mmap(nullptr, sizeof(Lockstep), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) _exit(95);
  close(fd);
  return *static_cast<Lockstep*>(page);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

}  // namespace

int train(const std::vector<std::string>& words) {
  const auto& folder = words.at(1);
  const auto steps = static_cast<std::uint32_t>(std::stoul(words.at(2)));
  const auto pause = static_cast<useconds_t>(std::stoul(words.at(3)) * 1000);
  const auto generation = variable("TRAINRUN_GENERATION");
  const auto rank = number("RANK"), size = number("WORLD_SIZE");
  if (size == 0 || size > max_ranks || rank >= size) return 94;
  auto& all = lockstep_of(folder, generation);
  if (rank == 0) all.begun = 1 + saved_step(folder);
  while (all.begun == 0) usleep(look_again);
  auto step = all.begun - 1;
  append(folder + "/starts",
         "{\"generation\":" + generation + ",\"rank\":" + std::to_string(rank) +
             ",\"size\":" + std::to_string(size) + ",\"restart\":" + variable("TRAINRUN_RESTART_COUNT") +
             ",\"torch_restart\":" + variable("TORCHELASTIC_RESTART_COUNT") +
             ",\"port\":" + variable("MASTER_PORT") + ",\"from\":" + std::to_string(step) +
             ",\"pid\":" + std::to_string(getpid()) + ",\"host\":\"" + host_name() + "\"}\n");
  say("generation " + generation + " from step " + std::to_string(step) + "\n");
  const auto finish = folder + "/finish";
  while (step < steps) {
    usleep(pause);
    ++step;
    struct stat status {};
    if (rank == 0 && stat(finish.c_str(), &status) == 0) all.last = 1 + step;
    ++all.done.at(rank);
    for (std::uint32_t other = 0; other < size; ++other)
      while (all.done.at(other) < all.done.at(rank)) usleep(look_again);
    if (rank == 0) {
      save(folder, step);
      say("step " + std::to_string(step) + " of generation " + generation + "\n");
    }
    if (all.last == 1 + step) break;
  }
  say("trained to step " + std::to_string(step) + "\n");
  return 0;
}

int heir(const std::vector<std::string>& words) {
  const auto path = words.at(1) + "/daemons";
  const auto generation = number("TRAINRUN_GENERATION"), size = number("WORLD_SIZE");
  const auto known = [&path] {
    std::vector<std::pair<std::uint32_t, pid_t>> out;
    std::ifstream file(path);
    for (std::pair<std::uint32_t, pid_t> one; file >> one.first >> one.second;) out.push_back(one);
    return out;
  };
  for (const auto& [born, pid] : known()) {
    if (born >= generation || (kill(pid, 0) != 0 && errno == ESRCH)) continue;
    say("daemon " + std::to_string(pid) + " of generation " + std::to_string(born) + " is still there\n");
    return 41;
  }
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    signal(SIGTERM, SIG_IGN);
    for (const int fd : {0, 1, 2}) close(fd);
    append(path, std::to_string(generation) + " " + std::to_string(getpid()) + "\n");
    for (;;) pause();
  }
  const auto mine = [&] {
    const auto all = known();
    return std::count_if(all.begin(), all.end(), [&](const auto& one) { return one.first == generation; });
  };
  while (mine() < static_cast<std::ptrdiff_t>(size)) usleep(look_again);
  if (generation > 1) return 0;
  if (number("RANK") == 0) return 3;
  for (;;) pause();
}
