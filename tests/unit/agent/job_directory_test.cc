#include "launcher/agent/job_directory.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launcher/agent/process_tree.h"
#include "launcher/base/fd.h"
#include "tests/unit/agent/temporary_folder.h"

using namespace trainrun;
using agent::JobDirectory;
using agent::places_for_job_directory;
using agent::places_of_other_jobs;

namespace {

using Places = std::vector<std::string>;

using Base = agent::TemporaryFolder;

mode_t mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

}  // namespace

TEST_SUITE("job directory") {
  TEST_CASE("memory before disk, unless the job or the login names a place") {
    CHECK(places_for_job_directory("", "") == Places{"/dev/shm", "/tmp"});
    CHECK(places_for_job_directory("", "/scratch") == Places{"/scratch", "/dev/shm", "/tmp"});
    CHECK(places_for_job_directory("/mine", "/scratch") == Places{"/mine", "/dev/shm", "/tmp"});
    CHECK(places_for_job_directory("relative", "too") == Places{"/dev/shm", "/tmp"});
  }

  TEST_CASE("what other jobs have left is not looked for in /tmp where there is a better place") {
    const auto places = places_for_job_directory("/mine", "");
    CHECK(places_of_other_jobs(places, "/mine/trainrun.1.x") == Places{"/mine", "/dev/shm"});
    CHECK(places_of_other_jobs(places, "/dev/shm/trainrun.1.x") == Places{"/mine", "/dev/shm"});
    CHECK(places_of_other_jobs(places, "/tmp/trainrun.1.x") == places);
  }

  TEST_CASE("the first place that works gets it; the key is for us alone, and the watcher knows where") {
    const Base base;
    const auto file = base.path + "/file";
    std::ofstream(file) << "no directory";
    agent::Handover handover;
    JobDirectory directory(handover);
    CHECK(directory.make({"/no/such", file, base.path}, "job7", "secret\n") == 0);
    CHECK(directory.path().starts_with(base.path + "/trainrun.job7."));
    CHECK(handover.job_directory() == directory.path());
    CHECK(mode_of(directory.path()) == 0700);
    CHECK(mode_of(directory.path() + "/key") == 0600);
    CHECK(read_file(directory.path() + "/key", 100).value_or("") == "secret\n");
  }

  TEST_CASE("a long path is removed as a short one is, and one that is too long is refused") {
    const Base base;
    auto deep = base.path;
    while (deep.size() < 3850) {
      deep += "/" + std::string(100, 'd');
      std::filesystem::create_directory(deep);
    }
    agent::Handover handover;
    JobDirectory directory(handover);
    REQUIRE(directory.make({deep}, "job7", "secret\n") == 0);
    CHECK(handover.job_directory() == directory.path());
    agent::remove_tree(handover.job_directory());
    CHECK(std::filesystem::is_empty(deep));
    const auto without_id = deep.size() + std::string("/trainrun..XXXXXX").size();
    for (const std::size_t length : {4093, 4097}) {  // no room for the key, and none for the directory
      CAPTURE(length);
      CHECK(directory.make({deep}, std::string(length - without_id, 'j'), "secret\n") == ENAMETOOLONG);
    }
    CHECK(std::filesystem::is_empty(deep));
  }

  TEST_CASE("what ranks share by name is in memory, wherever the directory is, and goes with it") {
    const Base base;
    agent::Handover handover;
    JobDirectory directory(handover);
    REQUIRE(directory.make({base.path}, "job7", "secret\n") == 0);
    CHECK(directory.memory().empty());
    directory.add_memory();
    CHECK(directory.memory() == "/dev/shm" + directory.path().substr(base.path.size()));
    CHECK(mode_of(directory.memory()) == 0700);
    std::ofstream(directory.memory() + "/segment") << "shared";
    agent::remove_job_directory(handover.job_directory());
    CHECK_FALSE(std::filesystem::exists(directory.path()));
    CHECK_FALSE(std::filesystem::exists(directory.memory()));
    REQUIRE(directory.make({"/dev/shm"}, "job7", "secret\n") == 0);
    directory.add_memory();
    CHECK(directory.memory() == directory.path());
    agent::remove_job_directory(directory.path());
    CHECK_FALSE(std::filesystem::exists(directory.path()));
  }

  TEST_CASE("where none works, the last is told") {
    agent::Handover handover;
    JobDirectory directory(handover);
    CHECK(directory.make({"/no/such", "/dev/null"}, "job7", "secret\n") == ENOTDIR);
    CHECK(directory.path().starts_with("/dev/null/trainrun.job7."));
    CHECK(handover.job_directory().empty());
  }

  TEST_CASE("what is taken away comes back, but not into a directory that others can enter") {
    const Base base;
    agent::Handover handover;
    JobDirectory directory(handover);
    REQUIRE(directory.make({base.path}, "job7", "secret\n") == 0);
    const auto key = directory.path() + "/key";
    const auto there = [&] { return read_file(key, 100).value_or("") == "secret\n"; };
    std::filesystem::remove_all(directory.path());
    CHECK(directory.restore() == 0);
    CHECK(mode_of(directory.path()) == 0700);
    CHECK(mode_of(key) == 0600);
    CHECK(there());
    std::filesystem::remove(key);
    CHECK(directory.restore() == 0);
    CHECK(there());
    std::filesystem::remove(key);
    ::chmod(directory.path().c_str(), 0755);
    CHECK(directory.restore() == EEXIST);
    CHECK_FALSE(there());
    std::filesystem::remove_all(directory.path());
    std::filesystem::create_directory_symlink(base.path, directory.path());
    CHECK(directory.restore() == EEXIST);
    CHECK_FALSE(std::filesystem::exists(base.path + "/key"));
  }
}
