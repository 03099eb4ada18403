// A FileThread for each file system that is written to, so that one which stalls holds up no other.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/output/file_thread.h"

namespace trainrun::output {

// See FileThread for what these do.
class FileThreads {
 public:
  struct File {
    FileThread* thread = nullptr;
    FileThread::File number = 0;
  };
  FileThreads(io::Loop& loop, FileThread::Handlers handlers, Duration stalls_after = seconds(5));

  File add(int fd, std::string name, FileThread::Failed failed);
  File add(Fd fd, std::string name, FileThread::Failed failed);
  static void write(const File& file, std::string_view bytes) { file.thread->write(file.number, bytes); }
  static void take(const File& file, std::string& bytes) { file.thread->take(file.number, bytes); }
  // After what is queued for that file.
  static void later(const File& beside, std::function<std::string()> work) {
    beside.thread->later(std::move(work));
  }

  [[nodiscard]] std::size_t backlog() const;
  [[nodiscard]] std::size_t lost() const;
  [[nodiscard]] std::vector<FileThread::Loss> losses() const;  // the greatest first
  [[nodiscard]] bool idle() const;
  FileThread::Left give_up();

 private:
  FileThread& thread_of(int fd);

  io::Loop& loop_;
  const FileThread::Handlers handlers_;
  const Duration stalls_after_;
  std::map<dev_t, FileThread> threads_;
};

}  // namespace trainrun::output
