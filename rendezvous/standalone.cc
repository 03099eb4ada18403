#include "rendezvous/standalone.h"

#include <fmt/format.h>
#include <signal.h>

#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "launcher/base/advice.h"
#include "launcher/base/end_by_signal.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/strings.h"
#include "launcher/base/time.h"
#include "launcher/base/utf8.h"
#include "launcher/io/loop.h"
#include "rendezvous/key_file.h"
#include "rendezvous/service.h"
#include "rendezvous/tcp_listener.h"

namespace trainrun::rendezvous {
namespace {

constexpr Duration farewell = seconds(2);  // for members to take the last replies and go

void say(const std::string& text) {  // a stderr that nobody reads is no reason to end
  std::fputs(fmt::format("trainrun: {}\n", printable(text)).c_str(), stderr);
}

int report(const Error& error) {
  say(error.message);
  if (!error.hint.empty()) std::fputs(fmt::format("  {}\n", printable(advice(error.hint))).c_str(), stderr);
  return to_int(exit_code_of(error.code));
}

// 0, or the exit code after a word on stderr.
int print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  const int why = errno;
  say("stdout cannot be written to: " + errno_text(why));
  return static_cast<int>(why == EPIPE ? ExitCode::output_closed : ExitCode::output_lost);
}

std::string name_of_signal(int number) {
  switch (number) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "SIGQUIT";
  }
}

class Server {
 public:
  Server(const StandaloneOptions& options, const KeyFile& file, std::unique_ptr<TcpListener> listener,
         io::Loop& loop, boost::asio::signal_set& signals)
      : options_(options),
        loop_(loop),
        listener_(std::move(listener)),
        service_(file.key(),
                 {[this](std::uint32_t c, std::string bytes) { listener_->send(c, std::move(bytes)); },
                  [this](std::uint32_t c) { listener_->close(c); },
                  [this](const Verdict& verdict) { over(verdict); },
                  {},
                  [this](std::uint32_t c) { return listener_->unsent(c); }}),
        wake_(loop),
        limit_(loop),
        signals_(signals) {}

  int run() {
    service_.begin_generation({1}, World{1, options_.np, {}, {}}, io::Loop::now());
    listener_->serve(service_, {[this] { return ++last_connection_; }, [this] { touched(); }});
    if (options_.timeout)
      limit_.arm(io::Loop::now() + *options_.timeout, [this] {
        end(to_int(ExitCode::timeout),
            "the time limit passed (--timeout): " + service_.table().outstanding());
      });
    wait_for_signal();
    loop_.run();
    return exit_code_;
  }

 private:
  void wait_for_signal() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      if (service_.table().verdict()) {
        say(fmt::format("the server got {} and does not wait for its members to go", name_of_signal(number)));
        return loop_.stop();
      }
      end(exit_code_of_signal(number), fmt::format("the server got {}", name_of_signal(number)));
      wait_for_signal();
    });
  }
  void end(int code, const std::string& why) {
    ending_ = true;
    exit_code_ = code;
    say(why);
    service_.end_generation({1}, why, io::Loop::now(), Verdict::Kind::aborted);
    touched();
  }
  void over(const Verdict& verdict) {
    if (verdict.kind != Verdict::Kind::ended && !ending_) {
      exit_code_ = to_int(ExitCode::unreachable);
      say(describe(verdict));
    }
    listener_->stop_accepting();
    limit_.arm(io::Loop::now() + farewell, [this] { loop_.stop(); });
  }
  void touched() {
    if (service_.table().verdict() && listener_->connections() == 0) return loop_.stop();
    if (const auto next = service_.next_deadline())
      wake_.arm(*next, [this] {
        service_.advance(io::Loop::now());
        touched();
      });
    else
      wake_.disarm();
  }

  StandaloneOptions options_;
  io::Loop& loop_;
  std::unique_ptr<TcpListener> listener_;
  Service service_;
  io::Timer wake_, limit_;
  boost::asio::signal_set& signals_;
  std::uint32_t last_connection_ = 0;
  bool ending_ = false;  // by our own word, which was said already
  int exit_code_ = 0;
};

}  // namespace

int rendezvous_main(const StandaloneOptions& options) {
  // None of these may leave a key file behind. A reader that went away is seen when we write.
  for (const int number : {SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2}) ::signal(number, SIG_IGN);
  io::Loop loop;
  auto listener = TcpListener::listen(loop, options.bind);
  if (!listener) return report(listener.error());
  // From here on a signal ends the server in order, which removes the key file. What was ignored when we were
  // started stays so: nohup, and `&` in a script.
  boost::asio::signal_set signals(loop.context());
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    if (!is_ignored(number)) signals.add(number);
  const char* temporary = std::getenv("TMPDIR");
  const auto file =
      KeyFile::open(options.key_file, temporary != nullptr && *temporary == '/' ? temporary : "/tmp");
  if (!file) return report(file.error());
  // In the form of environment variables, so that a script can hand the line on as it is. A server that
  // nobody can know of would wait for nothing.
  if (const int code = print(fmt::format("TRAINRUN_RENDEZVOUS={} TRAINRUN_KEY_FILE={} TRAINRUN_SIZE={}\n",
                                         (*listener)->address(), shell_quote(file->path()), options.np));
      code != 0)
    return code;
  return Server(options, *file, std::move(*listener), loop, signals).run();
}

}  // namespace trainrun::rendezvous
