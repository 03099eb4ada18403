// Memory that processes of one host share. It has no name that could be left behind, or none for longer than
// it takes the others to map it; it goes with the last process that maps it, however that ends. A forked
// child does not have it.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/base/error.h"
#include "launcher/base/fd.h"

namespace trainrun::comm {

class Segment {
 public:
  // In the order in which they are tried.
  enum class Kind {
    anonymous,  // a memfd, which others reach through /proc/PID/fd
    file,       // a file in memory, mode 0600, for hosts or containers where that is refused
  };

  // How much is all there from the beginning: later nothing can fail for lack of it; and how much with what
  // is not.
  struct Bytes {
    std::size_t first, all;
  };
  // Of zeros. Only `first` of them where files are limited to less than all, and in a file, whose folder may
  // be small. `folder` is for a file.
  static Result<Segment> create(Kind kind, Bytes bytes, const std::string& folder);
  // The same memory in another process, by what place() said there. An error if it has another length.
  static Result<Segment> map(const std::string& place, Bytes bytes);
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;

  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  // Whether memory of a segment that was not there from the beginning is there now. False also on kernels
  // before 5.14.
  [[nodiscard]] static bool provide(char* begin, std::size_t bytes);
  static void give_back(char* begin, std::size_t bytes);
  // Where others find it, until close_door().
  [[nodiscard]] const std::string& place() const { return place_; }
  // Nobody can map it any more; who has, keeps it.
  void close_door();

 private:
  Segment() = default;
  static Result<Segment> map_fd(int fd, Bytes bytes);

  char* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::string place_;
  std::string to_unlink_;
  Fd fd_;  // keeps the place alive
};

}  // namespace trainrun::comm
