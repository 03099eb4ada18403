#include "sample_log.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

void write_sample_log(const std::string& path, const std::vector<int>& counts) {
  // Ranks of several hosts may write at once into one folder: a process id would not keep them apart.
  auto temporary = path + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) throw std::runtime_error("cannot write " + path);
  ::close(fd);
  std::ofstream file(temporary, std::ios::trunc);
  for (std::size_t i = 0; i < counts.size(); ++i) file << i << ' ' << counts[i] << '\n';
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0)
    throw std::runtime_error("cannot write " + path);
}
