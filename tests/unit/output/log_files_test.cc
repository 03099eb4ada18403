#include "launcher/output/log_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/unit/output/turn.h"

using namespace trainrun;
using namespace trainrun::output;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    char path[] = "/tmp/log_files_test.XXXXXX";
    at = ::mkdtemp(path);
  }
  ~Folder() { fs::remove_all(at); }
  std::vector<std::string> names(const std::string& below = "") const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(at / below)) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string content(const std::string& path) const {
    std::ifstream file(at / path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  fs::path at;
};

}  // namespace

TEST_SUITE("log files") {
  TEST_CASE("each job has a directory of its own, and `latest` is the one whose ranks started last") {
    const Folder folder;
    const auto directory = folder.at / "made" / "too";
    io::Loop loop;
    FileThreads threads(loop, {});
    std::vector<std::string> jobs;
    for (const auto* id : {"aaaaaaaa11111111", "bbbbbbbb11111111"}) {
      LogFiles files(threads, {});
      REQUIRE(files.open(directory, id, 2));
      files.ranks_start();
      files.write(Rank{1}, wire::Output::err, std::string("of ") + id);
      test::run_until(loop, [&] { return threads.idle(); });
      files.close();
      const auto latest = fs::read_symlink(directory / "latest").string();
      CHECK(latest.size() == std::string("20261122-140322-aaaaaaaa").size());
      CHECK(latest.ends_with(std::string("-") + std::string(id).substr(0, 8)));
      CHECK(folder.content("made/too/latest/rank.1/stderr") == std::string("of ") + id);
      CHECK(folder.names("made/too/latest/rank.0") == std::vector<std::string>{"stderr", "stdout"});
      jobs.push_back(latest);
    }
    CHECK(folder.content("made/too/" + jobs[0] + "/rank.1/stderr") == "of aaaaaaaa11111111");
    CHECK(folder.names("made/too").size() == 3);
  }

  TEST_CASE("what to try fits what is wrong with the directory") {
    CHECK(advice_on_log_files(EMFILE).find("ulimit -n") != std::string_view::npos);
    CHECK(advice_on_log_files(ENFILE).find("fs.file-max") != std::string_view::npos);
    CHECK(advice_on_log_files(ENOSPC).find("make room") == 0);
    CHECK(advice_on_log_files(EDQUOT).find("quota") != std::string_view::npos);
    CHECK(advice_on_log_files(EACCES).find("you may write to") != std::string_view::npos);
  }

  TEST_CASE("a job whose ranks never start leaves nothing, and `latest` as it was") {
    const Folder folder;
    io::Loop loop;
    FileThreads threads(loop, {});
    LogFiles before(threads, {}), after(threads, {});
    REQUIRE(before.open(folder.at, "aaaaaaaa11111111", 1));
    before.ranks_start();
    REQUIRE(after.open(folder.at, "bbbbbbbb11111111", 1));
    test::run_until(loop, [&] { return threads.idle(); });
    CHECK(folder.names().size() == 3);
    after.close();
    before.close();
    CHECK(folder.names().size() == 2);
    CHECK(fs::read_symlink(folder.at / "latest").string().ends_with("-aaaaaaaa"));
    LogFiles deep(threads, {});
    REQUIRE(deep.open(folder.at / "a" / "b", "cccccccc11111111", 1));
    deep.close();
    CHECK(folder.names().size() == 2);
  }

  TEST_CASE("something of the user's named `latest` stays") {
    const Folder folder;
    for (const bool directory : {true, false}) {
      CAPTURE(directory);
      fs::remove_all(folder.at / "latest");
      if (directory)
        fs::create_directories(folder.at / "latest" / "mine");
      else
        std::ofstream(folder.at / "latest") << "precious";
      io::Loop loop;
      std::vector<std::string> said;
      FileThread::Handlers handlers;
      handlers.said = [&said](const std::string& line) { said.push_back(line); };
      FileThreads threads(loop, handlers);
      LogFiles files(threads, {});
      REQUIRE(files.open(folder.at, directory ? "aaaaaaaa11111111" : "bbbbbbbb11111111", 1));
      files.ranks_start();
      test::run_until(loop, [&] { return threads.idle(); });
      if (directory)
        CHECK(fs::is_directory(folder.at / "latest" / "mine"));
      else
        CHECK(folder.content("latest") == "precious");
      REQUIRE(said.size() == 1);
      CHECK(said[0].find("no symbolic link and stays as it is") != std::string::npos);
    }
    CHECK(folder.names().size() == 3);
  }

  TEST_CASE("stacks are appended beside the output") {
    const Folder folder;
    io::Loop loop;
    FileThreads threads(loop, {});
    LogFiles files(threads, {});
    REQUIRE(files.open(folder.at, "aaaaaaaa11111111", 1));
    files.ranks_start();
    CHECK(files.keep_stack(Rank{0}, "one").ends_with("/rank.0/stack"));
    files.keep_stack(Rank{0}, "two");
    test::run_until(loop, [&] { return threads.idle(); });
    CHECK(folder.content("latest/rank.0/stack") == "one\ntwo\n");
  }

  TEST_CASE(
      "what cannot be made is an error of both, a look and a start, in the same words, and nothing is left") {
    const Folder folder;
    std::ofstream(folder.at / "file") << "x";
    io::Loop loop;
    FileThreads threads(loop, {});
    for (const std::string& where :
         {std::string("/proc/nope"), (folder.at / "file").string(), (folder.at / "file/a").string()}) {
      CAPTURE(where);
      LogFiles files(threads, {});
      const auto opened = files.open(where, "aaaaaaaa11111111", 1);
      const auto looked = may_make_log_files(where);
      REQUIRE_FALSE(opened);
      REQUIRE_FALSE(looked);
      CHECK(opened.error() == looked.error());
      // Which of the option's names was typed, or a file's key, is not known here: the directory was typed.
      CHECK(looked.error().message.find("output cannot be kept in '" + where + "': ") == 0);
      CHECK(looked.error().hint.find("--log-dir") != std::string::npos);
    }
    CHECK(may_make_log_files(folder.at / "a" / "b"));
    CHECK(folder.names() == std::vector<std::string>{"file"});
  }
}
