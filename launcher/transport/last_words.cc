#include "launcher/transport/last_words.h"

#include <algorithm>

namespace trainrun::transport {

void keep_tail(std::string& tail, std::string_view bytes, std::size_t limit) {
  tail.append(bytes.substr(bytes.size() - std::min(bytes.size(), limit)));
  if (tail.size() > limit) tail.erase(0, tail.size() - limit);
}

void LastWords::add(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  keep_tail(text_, bytes);
}

std::string LastWords::text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

}  // namespace trainrun::transport
