// A stand-in for the agent, for tests of the transports: greets, then gives back every byte it reads.
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace {

bool write_all(const char* data, std::size_t size) {
  while (size > 0) {
    const auto count = write(STDOUT_FILENO, data, size);
    if (count <= 0) return false;
    data += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || std::strcmp(argv[1], "--greet") != 0) return 2;
  char line[128];
  const int size = std::snprintf(line, sizeof line, "%s ready\n", argv[2]);
  if (size <= 0 || !write_all(line, static_cast<std::size_t>(size))) return 1;
  static char buffer[256 * 1024];
  for (;;) {
    const auto count = read(STDIN_FILENO, buffer, sizeof buffer);
    if (count <= 0) return 0;
    if (!write_all(buffer, static_cast<std::size_t>(count))) return 0;
  }
}
