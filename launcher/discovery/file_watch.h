// Says when a file may have another content: written, renamed over, created, deleted.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/io/loop.h"

namespace trainrun {

// The directory is watched, not the file: an editor writes another file and renames it over this one. What
// happens behind a symbolic link to elsewhere, or on another client of a network file system, is not seen.
class FileWatch {
 public:
  FileWatch(io::Loop& loop, const std::string& path, std::function<void()> changed);
  ~FileWatch();  // `changed` is not called any more; allowed inside it
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Begins, and begins again when the directory was not there or has gone. Cheap when nothing is to be done.
  // False: there is no watch now; only asking again and again helps.
  bool ensure();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trainrun
