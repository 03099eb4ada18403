// Ranks that are forked instead of executed (--preload): which, by which zygote, and what to do where that
// cannot be, which is always the same: a plain start, and one line that says why.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/preload_rules.h"
#include "launcher/agent/supervisor.h"
#include "launcher/agent/zygote.h"
#include "launcher/io/frame_stream.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class Preloader {
 public:
  // All must outlive it.
  Preloader(io::Loop& loop, io::FrameStream& link, Supervisor& supervisor);
  ~Preloader();

  void begin(const wire::Preload& preload, const std::string& job_directory);
  void start(const wire::Start& order);
  void signal(const wire::Signal& order);  // one to end: what waits here is not started
  bool take(pid_t child);                  // a zombie of ours: true if it was a zygote, which is reaped then
  [[nodiscard]] bool is_zygote(pid_t pid) const;
  [[nodiscard]] bool is_of_zygote(pid_t pid) const;  // or what it has started, but for ranks
  void drop();                                       // ends them, and starts no more

 private:
  struct Sent;
  struct Line;
  void spawn(Line& line);
  void said(Line& line, const std::vector<std::string>& fields);
  void forked(Line& line, const std::vector<std::string>& fields);
  void stale(Line& line);
  void ended(Line& line, const std::string& why);
  void refuse(Line& line, const std::string& why);
  void start_plainly(Line& line);
  void give(Line& line);
  bool give_one(Line& line, const wire::Start& order, const std::vector<std::string>& words, bool more);
  void note(const std::string& text);
  void cancelled(const wire::Start& order);

  io::Loop& loop_;
  io::FrameStream& link_;
  Supervisor& supervisor_;
  bool automatic_ = false, dropped_ = false, told_output_ = false;
  std::string modules_, folder_, key_file_;
  Duration time_limit_ = seconds(60);
  std::vector<std::unique_ptr<Line>> lines_;
};

}  // namespace trainrun::agent
