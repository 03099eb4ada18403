#include "launcher/control/socket_place.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <fstream>

#include "tests/unit/control/place.h"

namespace trainrun::control {
namespace {

void touch(const std::string& path, const std::string& text = "precious") { std::ofstream(path) << text; }

std::string read(const std::string& path) { return read_file(path, 1000).value_or("(gone)"); }

TEST_CASE("the directory is XDG's, or the login's, or one of /tmp") {
  using Places = std::vector<std::string>;
  CHECK(places_to_look("", 7) == Places{"/run/user/7/trainrun", "/tmp/trainrun-7"});
  CHECK(places_to_look("/run/user/7", 7) == Places{"/run/user/7/trainrun", "/tmp/trainrun-7"});
  CHECK(places_to_look("/x", 7) == Places{"/x/trainrun", "/run/user/7/trainrun", "/tmp/trainrun-7"});
}

TEST_CASE("a directory is made private, and used again") {
  const Place place;
  const auto mask = ::umask(0);
  const auto made = make_directory(place / "trainrun");
  ::umask(mask);
  CHECK(made.has_value());
  CHECK(make_directory(place / "trainrun").has_value());
  struct stat status {};
  REQUIRE(::stat((place / "trainrun").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0700);
  CHECK(check_directory(place / "other").error().code == Code::not_found);
  CHECK(make_directory(place / "a/b").error().code == Code::try_again);
}

TEST_CASE("a directory that others could have a hand in is refused, with the reason") {
  const Place place;
  const auto directory = place / "trainrun";
  const auto why = [&] {
    const auto made = make_directory(directory);
    if (made) return std::string("taken");
    CHECK(made.error().code == Code::refused);
    return made.error().message;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };

  REQUIRE(::mkdir((place / "real").c_str(), 0700) == 0);
  REQUIRE(::symlink((place / "real").c_str(), directory.c_str()) == 0);
  CHECK(has(why(), "is a symbolic link"));
  ::unlink(directory.c_str());

  REQUIRE(::symlink((place / "nowhere").c_str(), directory.c_str()) == 0);
  CHECK(has(why(), "is a symbolic link"));
  CHECK_FALSE(exists(place / "nowhere"));
  ::unlink(directory.c_str());

  touch(directory);
  CHECK(has(why(), "cannot be opened"));
  ::unlink(directory.c_str());

  REQUIRE(::mkdir(directory.c_str(), 0700) == 0);
  for (const mode_t mode : {0755U, 0710U, 0702U}) {
    REQUIRE(::chmod(directory.c_str(), mode) == 0);
    CHECK(has(why(), "is open to other users"));
  }
  REQUIRE(::chmod(directory.c_str(), 0700) == 0);
  CHECK(why() == "taken");

  REQUIRE(::chmod(place.path.c_str(), 0777) == 0);
  CHECK(has(why(), "lies in one that other users can write to"));
  REQUIRE(::chmod(place.path.c_str(), 01777) == 0);
  CHECK(why() == "taken");
  REQUIRE(::chmod(place.path.c_str(), 0700) == 0);

  if (::geteuid() == 0) {  // only root can give a directory away
    REQUIRE(::chown(directory.c_str(), 65534, 65534) == 0);
    CHECK(has(why(), "belongs to the user 65534"));
  }
}

TEST_CASE("sockets of dead launchers are removed; the living, and what is no socket, stay") {
  const Place place;
  const auto living = raw_listener(place / "aa11.sock");
  raw_listener(place / "bb22.sock").reset();  // dead
  raw_listener(place / "cc33").reset();       // not named as ours
  raw_listener(place / "UPPER.sock").reset();
  touch(place / "dd44.sock");
  REQUIRE(::symlink((place / "cc33").c_str(), (place / "ee55.sock").c_str()) == 0);

  CHECK(live_jobs(place.path) == std::vector<std::string>{"aa11"});
  CHECK_FALSE(exists(place / "bb22.sock"));
  for (const auto* name : {"aa11.sock", "cc33", "UPPER.sock", "dd44.sock", "ee55.sock"})
    CHECK(exists(place / name));
  CHECK(live_jobs(place / "gone").empty());
}

TEST_CASE("what a launcher left that was killed before it listened goes, but not in a living one's moment") {
  const Place place;
  REQUIRE(::mkdir((place / "old").c_str(), 0700) == 0);
  REQUIRE(::mkdir((place / "now").c_str(), 0700) == 0);
  raw_listener(place / "old/aa11.new").reset();
  raw_listener(place / "now/aa11.new").reset();
  touch(place / "now/bb22.new");
  const timespec long_ago[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
  for (const auto* name : {"old/aa11.new", "now/bb22.new"})
    REQUIRE(::utimensat(AT_FDCWD, (place / name).c_str(), long_ago, AT_SYMLINK_NOFOLLOW) == 0);
  CHECK(live_jobs(place / "old").empty());
  CHECK_FALSE(exists(place / "old"));  // with the last of them
  CHECK(live_jobs(place / "now").empty());
  CHECK(exists(place / "now/aa11.new"));
  CHECK(exists(place / "now/bb22.new"));  // no socket
}

TEST_CASE("whose socket it is, is known without an answer") {
  const Place place;
  const auto path = place / "aa11.sock";
  CHECK(listener_of(path, seconds(1)) == 0);
  const auto socket = listen_at(path);
  REQUIRE(socket);
  CHECK(listener_of(path, seconds(1)) == ::getpid());
}

TEST_CASE("a launcher whose queue is full is alive") {
  const Place place;
  const auto listener = raw_listener(place / "aa11.sock");
  std::vector<Fd> waiting;
  const auto where = address(place / "aa11.sock");
  for (;;) {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int status = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where);
    if (status != 0) break;
    waiting.push_back(std::move(socket));
    REQUIRE(waiting.size() < 1000);
  }
  CHECK(look_at_socket(place / "aa11.sock") == Presence::alive);
  CHECK(connect_to(place / "aa11.sock", milliseconds(20)).error().code == Code::unreachable);
}

TEST_CASE("listening: private, in place of a dead socket, never in place of a living one") {
  const Place place;
  const auto path = place / "aa11.sock";
  raw_listener(path).reset();
  const auto mask = ::umask(0);
  auto socket = listen_at(path);
  ::umask(mask);
  REQUIRE(socket.has_value());
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  CHECK(S_ISSOCK(status.st_mode));
  CHECK((status.st_mode & 07777) == 0600);
  CHECK((::fcntl(socket->get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(look_at_socket(path) == Presence::alive);
  CHECK(listen_at(path).error().code == Code::try_again);
  CHECK(connect_to(path, seconds(60)).has_value());
  CHECK_FALSE(exists(place / "aa11.new"));
  socket->reset();
  CHECK(connect_to(path, seconds(60)).error().code == Code::not_found);
}

TEST_CASE("a link in the socket's way is replaced, not followed") {
  const Place place;
  touch(place / "victim");
  REQUIRE(::symlink((place / "victim").c_str(), (place / "aa11.sock").c_str()) == 0);
  REQUIRE(::symlink((place / "victim").c_str(), (place / "aa11.new").c_str()) == 0);
  const auto socket = listen_at(place / "aa11.sock");
  REQUIRE(socket.has_value());
  struct stat status {};
  REQUIRE(::lstat((place / "aa11.sock").c_str(), &status) == 0);
  CHECK(S_ISSOCK(status.st_mode));
  REQUIRE(::lstat((place / "victim").c_str(), &status) == 0);
  CHECK(S_ISREG(status.st_mode));
  CHECK(read(place / "victim") == "precious");
}

TEST_CASE("a path that no socket can have is an error that says so") {
  const Place place;
  const auto directory = place / std::string(100, 'x');
  REQUIRE(make_directory(directory).has_value());
  const auto socket = listen_at(socket_path(directory, "aa11"));
  REQUIRE_FALSE(socket.has_value());
  CHECK(socket.error().code == Code::config);
  CHECK(socket.error().message.find("107 bytes at most") != std::string::npos);
  CHECK(connect_to(socket_path(directory, "aa11"), seconds(60)).error().code == Code::config);
}

TEST_CASE("the user and root may talk") {
  CHECK(may_talk(7, 7));
  CHECK(may_talk(0, 7));
  CHECK_FALSE(may_talk(8, 7));
  CHECK_FALSE(may_talk(7, 0));
  CHECK_FALSE(may_talk(static_cast<uid_t>(-1), 7));
  auto pair = make_socket_pair().value();
  CHECK(peer_of(pair.first.get()).uid == ::geteuid());
  CHECK(peer_of(pair.first.get()).pid == ::getpid());
}

}  // namespace
}  // namespace trainrun::control
