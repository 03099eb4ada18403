// A folder of a test's own, which goes with all that is in it.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace trainrun::agent {

struct TemporaryFolder {
  TemporaryFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // A file there, and the folders that its name has; returns its path.
  std::string put(const std::string& name, const std::string& bytes, mode_t mode = 0644) const {
    const auto file = path + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    return file;
  }

  std::string path = "/tmp/trainrun-unit.XXXXXX";
};

}  // namespace trainrun::agent
