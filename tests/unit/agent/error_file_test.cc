#include "launcher/agent/error_file.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/agent/agent_scene.h"
#include "tests/unit/agent/temporary_folder.h"

using namespace trainrun;
using agent::read_error_file;

namespace {

using Folder = agent::TemporaryFolder;

}  // namespace

TEST_SUITE("error file") {
  TEST_CASE("an ordinary file is read, and nothing else") {
    const Folder folder;
    const auto file = folder.path + "/error.json";
    CHECK(read_error_file("").empty());
    CHECK(read_error_file(file).empty());
    std::ofstream(file) << "{}";
    CHECK(read_error_file(file) == "{}");
    std::filesystem::create_symlink(file, folder.path + "/link");
    CHECK(read_error_file(folder.path + "/link").empty());
    REQUIRE(::mkfifo((folder.path + "/pipe").c_str(), 0600) == 0);
    CHECK(read_error_file(folder.path + "/pipe").empty());
    CHECK(read_error_file(folder.path).empty());
    CHECK(read_error_file("/dev/zero").empty());
    std::ofstream(file) << std::string(agent::longest_error_file, 'x');
    CHECK(read_error_file(file).size() == agent::longest_error_file);
    std::ofstream(file) << std::string(agent::longest_error_file + 1, 'x');
    CHECK(read_error_file(file).empty());
  }

  TEST_CASE("it is told before the end of a rank that failed, and not of one that did not") {
    const Folder folder;
    AgentScene scene;
    const auto file = folder.path + "/error.json";
    const auto start = [&](std::uint32_t worker, const std::string& code) {
      scene.start(worker, {"/bin/sh", "-c", "echo words > \"$TORCHELASTIC_ERROR_FILE\"; exit " + code},
                  {{"TORCHELASTIC_ERROR_FILE", file}});
      scene.until_said("exited " + std::to_string(worker));
    };
    start(1, "3");
    CHECK(scene.error_files[1] == "words\n");
    CHECK(scene.place("error file of 1") < scene.place("exited 1"));
    start(2, "0");
    CHECK_FALSE(scene.error_files.contains(2));
  }
}
