// The last of what a host, or ssh itself, wrote to stderr: what explains an end.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

namespace trainrun::transport {

// Appends to `tail` and keeps its last `limit` bytes.
void keep_tail(std::string& tail, std::string_view bytes, std::size_t limit = 4096);

// Written by a transport's thread, read by the launcher when the link has ended.
class LastWords {
 public:
  void add(std::string_view bytes);
  [[nodiscard]] std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace trainrun::transport
