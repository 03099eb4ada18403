// A rank that tells what its parent, the agent, and the agent's watcher have used so far: CPU time in
// nanoseconds (schedstat: exact, unlike the ticks of stat), and the agent's largest memory.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

long number_in_status(long pid, const char* name) {
  char path[64], line[256];
  std::snprintf(path, sizeof path, "/proc/%ld/status", pid);
  long number = 0;
  if (FILE* status = std::fopen(path, "re")) {
    const std::size_t length = std::strlen(name);
    while (std::fgets(line, sizeof line, status) != nullptr) {
      if (std::strncmp(line, name, length) == 0) number = std::atol(line + length);
    }
    std::fclose(status);
  }
  return number;
}

long long cpu_ns(long pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%ld/schedstat", pid);
  long long number = 0;
  if (FILE* schedstat = std::fopen(path, "re")) {
    if (std::fscanf(schedstat, "%lld", &number) != 1) number = 0;
    std::fclose(schedstat);
  }
  return number;
}

}  // namespace

int main() {
  const long agent = getppid();
  const long watcher = number_in_status(agent, "PPid:");
  std::printf("{\"agent_ns\": %lld, \"watcher_ns\": %lld, \"peak_kib\": %ld}\n", cpu_ns(agent),
              cpu_ns(watcher), number_in_status(agent, "VmHWM:"));
}
