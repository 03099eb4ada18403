// A directory of its own for a test, private as the rules want it, and gone with it; and raw sockets in it.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "launcher/base/fd.h"

namespace trainrun::control {

constexpr int patient_ms = 60'000;  // only against hanging

class Place {
 public:
  Place() {
    char name[] = "/tmp/trainrun-control.XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path + "/" + std::string(name); }
  std::string path;
};

inline bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

inline sockaddr_un address(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof out.sun_path);
  std::memcpy(out.sun_path, path.data(), path.size());
  return out;
}

// A socket that listens, or, once it is closed, what a killed launcher leaves.
inline Fd raw_listener(const std::string& path) {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto where = address(path);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  REQUIRE(::listen(socket.get(), 16) == 0);
  return socket;
}

class RawClient {
 public:
  explicit RawClient(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto where = address(path);
    REQUIRE(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  }
  // False when the other end is closed already.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  // The next line, or "" at the end of the connection.
  std::string line() {
    for (;;) {
      if (const auto end = buffer_.find('\n'); end != std::string::npos) {
        auto out = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return out;
      }
      char bytes[4096];
      REQUIRE(wait(POLLIN));
      const auto n = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (n <= 0) return {};
      buffer_.append(bytes, static_cast<std::size_t>(n));
    }
  }
  std::string ask(std::string_view request) {
    return send(std::string(request) + "\n") ? line() : std::string{};
  }
  // Until the other end has closed, though nothing was read.
  bool hung_up() { return wait(0); }

 private:
  bool wait(short what) {
    pollfd waiting{socket_.get(), what, 0};
    return ::poll(&waiting, 1, patient_ms) == 1;
  }
  Fd socket_;
  std::string buffer_;
};

}  // namespace trainrun::control
