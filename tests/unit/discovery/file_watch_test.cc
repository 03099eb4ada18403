#include "launcher/discovery/file_watch.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "launcher/base/fd.h"
#include "tests/unit/discovery/scene.h"

namespace trainrun {
namespace {

struct Scene {
  explicit Scene(const std::string& name = "hosts")
      : watch(bench.loop, directory / name, [this] { ++changes, bench.happened(); }) {}
  // Does it, and waits until it is noticed.
  void expect(const std::function<void()>& deed) {
    const int before = changes;
    deed();
    bench.run([&] { return changes > before; });
  }

  Directory directory;
  Bench bench;
  int changes = 0;
  FileWatch watch;
};

TEST_CASE("creating, writing, renaming over, renaming away and deleting a file are seen") {
  Scene scene;
  REQUIRE(scene.watch.ensure());
  const auto hosts = scene.directory / "hosts";
  scene.expect([&] { scene.directory.write("hosts", "a"); });
  scene.expect([&] { scene.directory.write("hosts", "b"); });
  scene.directory.write("hosts.new", "c");
  scene.expect([&] { std::filesystem::rename(hosts + ".new", hosts); });
  scene.expect([&] { std::filesystem::rename(hosts, hosts + "~"); });
  scene.expect([&] { std::filesystem::rename(hosts + "~", hosts); });
  scene.expect([&] { std::filesystem::remove(hosts); });
  CHECK(scene.watch.ensure());
}

TEST_CASE("a link is followed where Kubernetes swaps it") {
  Scene scene;
  const auto at = [&](const char* name) { return std::filesystem::path(scene.directory / name); };
  for (const char* version : {"..1", "..2"}) {
    std::filesystem::create_directory(at(version));
    scene.directory.write(std::string(version) + "/hosts", version);
  }
  std::filesystem::create_symlink("..1", at("..data"));
  std::filesystem::create_symlink("..data/hosts", at("hosts"));
  REQUIRE(scene.watch.ensure());
  std::filesystem::create_symlink("..2", at("..data_tmp"));
  scene.expect([&] { std::filesystem::rename(at("..data_tmp"), at("..data")); });
  CHECK(scene.directory.read("hosts") == "..2");
}

TEST_CASE("files beside it, and a file that is only half written, are not told") {
  Scene scene;
  scene.directory.write("hosts", "a");
  scene.directory.write("other", "a");
  REQUIRE(scene.watch.ensure());
  std::ofstream half(scene.directory / "hosts");
  half << "b" << std::flush;
  scene.directory.write("more", "a");
  std::filesystem::rename(scene.directory / "more", scene.directory / "other");
  bool later = false;  // told of what came after it, by a watch that began after it
  FileWatch other(scene.bench.loop, scene.directory / "later", [&] { later = true, scene.bench.happened(); });
  REQUIRE(other.ensure());
  scene.directory.write("later", "a");
  scene.bench.run([&] { return later; });
  CHECK(scene.changes == 0);
  scene.expect([&] { half.close(); });
  CHECK(scene.changes == 1);
}

TEST_CASE("a directory that is not there can be watched when it comes, and again after it went") {
  Scene scene("sub/hosts");
  CHECK_FALSE(scene.watch.ensure());
  for (int i = 0; i < 2; ++i) {
    std::filesystem::create_directory(scene.directory / "sub");
    REQUIRE(scene.watch.ensure());
    scene.expect([&] { scene.directory.write("sub/hosts", "a"); });
    scene.expect([&] { std::filesystem::remove_all(scene.directory / "sub"); });
    scene.bench.run([&] { return !scene.watch.ensure(); });
  }
}

TEST_CASE("a watch that could not begin for want of descriptors begins when there are some again") {
  Scene scene;
  const Fd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  auto few = limit;
  few.rlim_cur = static_cast<rlim_t>(next.get()) + 2;  // for the watch, not for the wait
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const bool began = scene.watch.ensure();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK_FALSE(began);
  REQUIRE(scene.watch.ensure());
  for (const char* text : {"a", "b"}) scene.expect([&] { scene.directory.write("hosts", text); });
}

}  // namespace
}  // namespace trainrun
