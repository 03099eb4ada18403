#include "launcher/base/fd.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace trainrun {
namespace {

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

TEST_CASE("a descriptor has one owner, and is closed with it") {
  int number = -1;
  {
    auto pair = make_pipe();
    REQUIRE(pair.has_value());
    number = pair->first.get();
    CHECK((::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
    Fd moved = std::move(pair->first);
    CHECK_FALSE(pair->first);
    CHECK(moved.get() == number);
    CHECK(is_open(number));
  }
  CHECK_FALSE(is_open(number));
}

TEST_CASE("a released descriptor is the caller's to close") {
  auto pair = make_socket_pair();
  REQUIRE(pair.has_value());
  const int number = pair->first.release();
  pair->first.reset();
  CHECK(is_open(number));
  CHECK(::close(number) == 0);
}

TEST_CASE("everything is written, though the pipe is smaller") {
  auto pair = make_pipe();
  REQUIRE(pair.has_value());
  const std::string bytes(300000, 'x');
  std::size_t got = 0;
  std::thread reader([&] {
    std::string buffer(65536, '\0');
    for (ssize_t size = 1; size > 0; got += static_cast<std::size_t>(size)) {
      size = ::read(pair->first.get(), buffer.data(), buffer.size());
      if (size < 0) break;
    }
  });
  const auto written = write_all(pair->second.get(), bytes);
  pair->second.reset();
  reader.join();
  CHECK(written.has_value());
  CHECK(got == bytes.size());
}

TEST_CASE("writing to a closed descriptor is an error") { CHECK_FALSE(write_all(-1, "x").has_value()); }

TEST_CASE("a file is read whole, up to the limit") {
  char path[] = "/tmp/trainrun-fd-test-XXXXXX";
  const Fd file(::mkstemp(path));
  REQUIRE(file);
  REQUIRE(write_all(file.get(), "12345").has_value());
  CHECK(*read_file(path, 5) == "12345");
  CHECK_FALSE(read_file(path, 4).has_value());
  ::unlink(path);
  const auto missing = read_file(path, 5);
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().message.find("No such file or directory") != std::string::npos);
}

TEST_CASE("a descriptor can be made not to block, and back") {
  auto pair = make_pipe();
  REQUIRE(pair.has_value());
  set_nonblocking(pair->first.get(), true);
  char byte = 0;
  CHECK(::read(pair->first.get(), &byte, 1) == -1);
  CHECK((::fcntl(pair->first.get(), F_GETFL) & O_NONBLOCK) != 0);
  set_nonblocking(pair->first.get(), false);
  CHECK((::fcntl(pair->first.get(), F_GETFL) & O_NONBLOCK) == 0);
}

}  // namespace
}  // namespace trainrun
