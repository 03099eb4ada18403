// The key file of a standalone server: read if it is there, else made, and then removed at the end.
#pragma once

#include <string>

#include "launcher/base/error.h"
#include "rendezvous/secure_channel.h"

namespace trainrun::rendezvous {

class KeyFile {
 public:
  // `wanted` empty: a new file in a new directory below `temporary`.
  static Result<KeyFile> open(const std::string& wanted, const std::string& temporary);
  KeyFile(KeyFile&& other) noexcept;
  KeyFile& operator=(KeyFile&&) = delete;
  ~KeyFile();  // removes what it made

  [[nodiscard]] const std::string& path() const { return path_; }  // absolute
  [[nodiscard]] const Key& key() const { return key_; }

 private:
  KeyFile() = default;
  std::string path_, directory_;
  bool made_ = false;
  Key key_;
};

}  // namespace trainrun::rendezvous
