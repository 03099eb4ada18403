#include "launcher/output/file_threads.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace trainrun::output {

FileThreads::FileThreads(io::Loop& loop, FileThread::Handlers handlers, Duration stalls_after)
    : loop_(loop), handlers_(std::move(handlers)), stalls_after_(stalls_after) {}

FileThread& FileThreads::thread_of(int fd) {
  struct stat info {};
  static_cast<void>(::fstat(fd, &info));  // of what is no file at all a write says more
  return threads_.try_emplace(info.st_dev, loop_, handlers_, stalls_after_).first->second;
}

FileThreads::File FileThreads::add(int fd, std::string name, FileThread::Failed failed) {
  auto& thread = thread_of(fd);
  return {&thread, thread.add(fd, std::move(name), std::move(failed))};
}

FileThreads::File FileThreads::add(Fd fd, std::string name, FileThread::Failed failed) {
  auto& thread = thread_of(fd.get());
  return {&thread, thread.add(std::move(fd), std::move(name), std::move(failed))};
}

std::size_t FileThreads::backlog() const {
  std::size_t bytes = 0;
  for (const auto& [device, thread] : threads_) bytes += thread.backlog();
  return bytes;
}

std::size_t FileThreads::lost() const {
  std::size_t bytes = 0;
  for (const auto& [device, thread] : threads_) bytes += thread.lost();
  return bytes;
}

std::vector<FileThread::Loss> FileThreads::losses() const {
  std::vector<FileThread::Loss> all;
  for (const auto& [device, thread] : threads_)
    for (auto& loss : thread.losses()) all.push_back(std::move(loss));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return all;
}

bool FileThreads::idle() const {
  for (const auto& [device, thread] : threads_)
    if (!thread.idle()) return false;
  return true;
}

FileThread::Left FileThreads::give_up() {
  FileThread::Left all;
  for (auto& [device, thread] : threads_) {
    if (thread.idle()) continue;
    auto left = thread.give_up();
    all.bytes += left.bytes;
    if (all.name.empty()) all.name = std::move(left.name);
  }
  return all;
}

}  // namespace trainrun::output
