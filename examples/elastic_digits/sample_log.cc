#include "sample_log.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>

void write_sample_log(const std::string& path, const std::vector<int>& counts) {
  const auto temporary = path + "." + std::to_string(::getpid());
  std::ofstream file(temporary, std::ios::trunc);
  for (std::size_t i = 0; i < counts.size(); ++i) file << i << ' ' << counts[i] << '\n';
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0)
    throw std::runtime_error("cannot write " + path);
}
