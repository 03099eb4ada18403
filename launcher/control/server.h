// The launcher's end of `trainrun ctl`: a private Unix socket in the loop. What commands mean is the
// handler's business.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/base/error.h"
#include "launcher/base/time.h"
#include "launcher/control/protocol.h"
#include "launcher/io/loop.h"

namespace trainrun::control {

class ControlServer {
 public:
  // Gives the line of the reply at once: to_json(WorldView), ok_reply() or error_reply(). Called from the
  // loop; may stop the loop or destroy the server. The reply is on its way before the loop's next turn.
  using Handler = std::function<std::string(const Command&)>;
  using CommandLine = std::function<std::string()>;  // ours, as others may see it

  // Cheap; opens nothing. `runtime_dir`: the socket's own directory. `time_limit`: how long a client may take
  // for one request, or to read one reply.
  ControlServer(io::Loop& loop, std::string job_id, std::string runtime_dir, Handler handler,
                CommandLine command_line, Duration time_limit = seconds(10));
  ~ControlServer();  // removes the socket; the handler is not called any more
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Makes the socket and answers from now on. An error is worth one line of warning, and nothing more: the
  // job goes on without `trainrun ctl`. Call it once, when the workers have been started: it costs a dozen
  // system calls, and more where dead launchers left their sockets.
  Result<void> listen();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  struct State;
  io::Loop& loop_;
  std::string job_id_, runtime_dir_, path_;
  Handler handler_;
  CommandLine command_line_;
  Duration time_limit_;
  std::shared_ptr<State> state_;
};

}  // namespace trainrun::control
