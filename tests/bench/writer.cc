// A rank of the output bench: writes lines (lines.h) to stdout until it has written BYTES, then says on
// stderr how much memory its parent, the agent, has had at most.
//
//   bench_writer BYTES
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/bench/lines.h"

namespace {

bool write_all(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(1, bytes.data() + done, bytes.size() - done);
    if (n < 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

void tell_peak_of_parent() {
  char path[64], line[256];
  std::snprintf(path, sizeof path, "/proc/%d/status", static_cast<int>(getppid()));
  FILE* status = std::fopen(path, "re");
  if (status == nullptr) return;
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::strncmp(line, "VmHWM:", 6) == 0)
      std::fprintf(stderr, "agent peak %ld KiB\n", std::atol(line + 6));
  }
  std::fclose(status);
}

}  // namespace

int main(int argc, char** argv) {
  const char* number = nullptr;
  for (const char* name : {"RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"}) {  // ours, then peers'
    if (number == nullptr) number = std::getenv(name);
  }
  if (argc != 2 || number == nullptr) return 2;
  const auto rank = static_cast<unsigned>(std::atoi(number));
  const std::uint64_t wanted = std::strtoull(argv[1], nullptr, 10);
  const bench::Pattern pattern;
  std::string chunk;
  chunk.reserve(65536 + 512);
  std::uint64_t sequence = 0;
  for (std::uint64_t written = 0; written < wanted; chunk.clear()) {
    while (chunk.size() < 65536 && written + chunk.size() < wanted) {
      char head[48];
      char* end = std::to_chars(head, head + 20, rank).ptr;
      *end++ = ' ';
      end = std::to_chars(end, head + 45, sequence).ptr;
      *end++ = ' ';
      chunk.append(head, end);
      chunk.append(pattern.text(rank, sequence), bench::text_length(rank, sequence));
      chunk.push_back('\n');
      ++sequence;
    }
    if (!write_all(chunk)) return 1;
    written += chunk.size();
  }
  tell_peak_of_parent();
  return 0;
}
