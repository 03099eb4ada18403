// Key files, and what is none.
#include "rendezvous/job_key.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "rendezvous/key_file.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

namespace {

struct Folder {
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = std::filesystem::temp_directory_path() / "trainrun-test-XXXXXX";
};

}  // namespace

TEST_CASE("a key file that was written is read as the same key, and one that others read is refused") {
  const Folder folder;
  const auto path = folder.path + "/key";
  const auto key = random_key();
  REQUIRE(write_key_file(path, key));
  CHECK(read_key_file(path) == key);
  CHECK_FALSE(write_key_file(path, key));
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK(read_key_file(path).error().hint == "chmod 600 " + path);
}

TEST_CASE("a directory, a device or a pipe is no key file, and none is waited for") {
  const Folder folder;
  const auto pipe = folder.path + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const auto& path : {folder.path, pipe, std::string("/dev/null")}) {
    const auto key = read_key_file(path);
    REQUIRE_FALSE(key);
    CHECK(key.error().message.find("is not a regular file") != std::string::npos);
    CHECK(key.error().hint.find("chmod") == std::string::npos);
  }
}

TEST_CASE("a file longer than a key is none") {
  const Folder folder;
  const auto path = folder.path + "/key";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  const std::string text(1000, 'a');
  REQUIRE(::write(file, text.data(), text.size()) == 1000);
  ::close(file);
  CHECK_FALSE(read_key_file(path));
}

TEST_CASE("a server's key file has an absolute name and goes with the server, unless it was there before") {
  const Folder folder;
  const auto relative = std::filesystem::relative(folder.path + "/key").string();
  std::string path;
  {
    const auto made = KeyFile::open(relative, "/nowhere");
    REQUIRE(made);
    path = made->path();
    CHECK(path.front() == '/');
    CHECK(read_key_file(path) == made->key());
  }
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(write_key_file(path, random_key()));
  { CHECK(KeyFile::open(relative, "/nowhere")->path() == path); }
  CHECK(std::filesystem::exists(path));
  { CHECK(KeyFile::open("", folder.path)->path().starts_with(folder.path + "/trainrun-")); }
  std::filesystem::remove(path);
  CHECK(std::filesystem::is_empty(folder.path));
}
