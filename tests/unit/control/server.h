// A server on a loop and a thread of its own, which remembers what it was told.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "launcher/control/server.h"
#include "launcher/io/loop.h"
#include "tests/unit/control/place.h"

namespace trainrun::control {

class Running {
 public:
  explicit Running(const std::string& directory, std::string id = "0123456789abcdef",
                   Duration time_limit = seconds(60))
      : server_(std::make_unique<ControlServer>(
            loop_, std::move(id), directory, [this](const Command& command) { return handle(command); },
            [] { return std::string("trainrun -np 2 ./train"); }, time_limit)) {
    path = server_->path();
    listening = server_->listen();
    thread_ = std::thread([this] { loop_.run(); });
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    loop_.post([this] {
      server_.reset();
      loop_.stop();
    });
    thread_.join();
  }
  void set_reply(std::string line) {
    const std::lock_guard lock(mutex_);
    reply_ = std::move(line);
  }
  // The handler destroys the server when it is told to end the job.
  void destroy_at_end() {
    const std::lock_guard lock(mutex_);
    destroy_ = true;
  }
  std::vector<Command> told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  std::string path;
  Result<void> listening;

 private:
  std::string handle(const Command& command) {
    const std::lock_guard lock(mutex_);
    told_.push_back(command);
    if (destroy_ && command.kind == Command::Kind::end) server_.reset();
    return reply_;
  }

  io::Loop loop_;
  std::mutex mutex_;
  std::vector<Command> told_;
  std::string reply_ = ok_reply("done");
  bool destroy_ = false;
  std::unique_ptr<ControlServer> server_;
  std::thread thread_;
};

}  // namespace trainrun::control
