// --output-filename DIR: what ranks print, in files of each job's own.
//
//     DIR/20261122-140322-1f0c9a3b/rank.0/stdout     the time of the start and the job's number
//     DIR/latest -> 20261122-140322-1f0c9a3b         the job whose ranks started last
//
// No job writes into the files of another, and the names sort by time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/id.h"
#include "launcher/output/file_threads.h"
#include "launcher/wire/messages.h"

namespace trainrun::output {

class LogFiles {
 public:
  using Failed = std::function<void(const std::string& path, int error)>;  // see FileThread
  LogFiles(FileThreads& threads, Failed failed);

  // Makes DIR where it is missing, and all files of these ranks. After an Error nothing of it is left.
  Result<void> open(const std::string& directory, const std::string& job_id, int ranks);
  [[nodiscard]] bool are_open() const { return !place_.empty(); }
  void ranks_start();  // from here on the files stay, and `latest` leads to them
  void write(Rank rank, wire::Output stream, std::string_view bytes);
  // Appends to rank.N/stack; gives its path.
  std::string keep_stack(Rank rank, const std::string& stack);
  void close();  // removes what was made when no rank has started

 private:
  bool make_directory(const std::string& path);
  bool make_all(const std::string& path);
  void remove_made();

  FileThreads& threads_;
  Failed failed_;
  std::string directory_, name_, place_;
  std::vector<std::string> made_;  // in this order
  bool in_use_ = false;
  std::map<std::pair<std::uint32_t, wire::Output>, FileThreads::File> files_;
};

// What to try where a directory or a file of them could not be made.
std::string_view advice_on_log_files(int error);

// Whether open() would succeed, as far as that can be told without making anything; the Error is that of
// open().
Result<void> may_make_log_files(const std::string& directory);

}  // namespace trainrun::output
