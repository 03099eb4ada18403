// A file descriptor with one owner, and the few calls on one that need care. Blocking code, no loop.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "launcher/base/error.h"

namespace trainrun {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }
  void reset();
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

struct FdPair {
  Fd first;   // of a pipe: the end to read
  Fd second;  // of a pipe: the end to write
};

Result<FdPair> make_pipe();         // close-on-exec
Result<FdPair> make_socket_pair();  // stream, close-on-exec

// All bytes, however often the call is interrupted or takes only a part. The fd must be blocking.
Result<void> write_all(int fd, std::string_view bytes);
Result<std::string> read_file(const std::string& path,
                              std::size_t limit);  // an error when the file is larger

void set_nonblocking(int fd, bool on);

}  // namespace trainrun
