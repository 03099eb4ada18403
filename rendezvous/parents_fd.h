// A descriptor that a forked child does not keep. While a child has a copy of a connection the peer cannot
// see that the parent has died, however long the child lives on.
#pragma once

#include <utility>

#include "launcher/base/fd.h"

namespace trainrun::rendezvous {

class ParentsFd {
 public:
  explicit ParentsFd(Fd fd);
  ParentsFd(ParentsFd&&) noexcept = default;
  ParentsFd& operator=(ParentsFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ParentsFd(const ParentsFd&) = delete;
  ParentsFd& operator=(const ParentsFd&) = delete;
  ~ParentsFd();

  // In a child that was forked since, the number stays, and stands for nothing.
  [[nodiscard]] int get() const { return fd_.get(); }

 private:
  Fd fd_;
};

}  // namespace trainrun::rendezvous
