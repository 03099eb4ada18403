#include "rendezvous/standalone.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>

#include "cli/exit_code.h"
#include "launcher/base/strings.h"
#include "launcher/base/time.h"
#include "launcher/io/loop.h"
#include "rendezvous/job_key.h"
#include "rendezvous/protocol.h"
#include "rendezvous/service.h"
#include "rendezvous/tcp_listener.h"

namespace trainrun::rendezvous {
namespace {

constexpr Duration farewell = seconds(2);  // for members to take the last replies and go

struct Request {
  std::uint32_t np = 0;
  std::string bind = "127.0.0.1:0";
  std::string key_file;
  std::optional<Duration> timeout;
};

const std::string usage =
    "usage: trainrun rendezvous --np N [--bind ADDR:PORT] [--key-file FILE] [--timeout TIME]";

bool asks_for_help(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

// What --help says.
constexpr std::string_view explanation =
    "\n"
    "Serves N members that somebody else starts, such as programs on comm under a batch\n"
    "system. Prints the variables for them on one line, and ends when they have left.\n"
    "\n"
    "  --np N              how many members there are\n"
    "  --bind ADDR:PORT    where to listen (default: a free port of 127.0.0.1)\n"
    "  --key-file FILE     the key of the job; made, and removed at the end, if it is not there\n"
    "  --timeout TIME      end after this time, with exit code 124\n"
    "\n"
    "Members that have no TRAINRUN_RANK are numbered in the order of their arrival.\n";

Result<Request> parse(const std::vector<std::string>& words) {
  Request request;
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto name = words[i];
    std::optional<std::string> value;
    if (const auto equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    const std::vector<std::string> known{"--np", "--bind", "--key-file", "--timeout"};
    if (name == "-np" || name == "-n") name = "--np";
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const auto near = nearest(name, known);
      return fail(Code::usage, fmt::format("trainrun rendezvous has no option {}", quoted(name)),
                  near ? fmt::format("did you mean {}?", *near) : usage);
    }
    if (!value && i + 1 < words.size()) value = words[++i];
    if (!value) return fail(Code::usage, fmt::format("{} needs a value", name), usage);
    if (name == "--np") {
      request.np = parse_unsigned<std::uint32_t>(*value).value_or(0);
      if (request.np == 0 || request.np > max_world)
        return fail(Code::usage, fmt::format("--np {}: expected 1 to {}", quoted(*value), max_world), usage);
    } else if (name == "--bind") {
      request.bind = *value;
    } else if (name == "--key-file") {
      request.key_file = *value;
    } else {
      request.timeout = parse_duration(*value);
      if (!request.timeout)
        return fail(Code::usage, fmt::format("--timeout {} is not a time", quoted(*value)),
                    "examples: 90, 2m, 1h");
    }
  }
  if (request.np == 0) return fail(Code::usage, "--np is missing: how many members are there?", usage);
  return request;
}

// The job's key, in a file that this object removes if it made it.
class KeyFile {
 public:
  static Result<KeyFile> open(const std::string& wanted) {
    KeyFile file;
    file.path_ = wanted;
    if (!wanted.empty() && ::access(wanted.c_str(), F_OK) == 0) {
      auto key = read_key_file(wanted);
      if (!key) return tl::unexpected(key.error());
      file.key_ = *key;
      return file;
    }
    if (wanted.empty()) {
      const char* base = std::getenv("TMPDIR");
      file.directory_ = fmt::format("{}/trainrun-XXXXXX", base != nullptr && *base == '/' ? base : "/tmp");
      if (::mkdtemp(file.directory_.data()) == nullptr)
        return fail(Code::try_again,
                    fmt::format("cannot make the directory {}: {}", file.directory_, errno_text(errno)));
      file.path_ = file.directory_ + "/key";
    }
    file.key_ = random_key();
    if (const auto written = write_key_file(file.path_, file.key_); !written)
      return tl::unexpected(written.error());
    file.made_ = true;
    return file;
  }
  KeyFile(KeyFile&& other) noexcept
      : path_(std::move(other.path_)),
        directory_(std::exchange(other.directory_, {})),
        made_(std::exchange(other.made_, false)),
        key_(other.key_) {}
  KeyFile& operator=(KeyFile&&) = delete;
  ~KeyFile() {
    if (made_) ::unlink(path_.c_str());
    if (!directory_.empty()) ::rmdir(directory_.c_str());
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Key& key() const { return key_; }

 private:
  KeyFile() = default;
  std::string path_, directory_;
  bool made_ = false;
  Key key_;
};

class Server {
 public:
  Server(const Request& request, const KeyFile& file, std::unique_ptr<TcpListener> listener, io::Loop& loop,
         boost::asio::signal_set& signals)
      : request_(request),
        loop_(loop),
        listener_(std::move(listener)),
        service_(file.key(),
                 {[this](std::uint32_t c, std::string bytes) { listener_->send(c, std::move(bytes)); },
                  [this](std::uint32_t c) { listener_->close(c); },
                  [this](const Verdict& verdict) { over(verdict); }}),
        wake_(loop),
        limit_(loop),
        signals_(signals) {}

  int run() {
    service_.begin_generation({1}, World{1, request_.np, {}, {}}, io::Loop::now());
    listener_->serve(service_, {[this] { return ++last_connection_; }, [this] { touched(); }});
    if (request_.timeout)
      limit_.arm(io::Loop::now() + *request_.timeout, [this] { end(124, "--timeout has passed"); });
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (!error) end(128 + number, signal_word(number));
    });
    loop_.run();
    return exit_code_;
  }

 private:
  static std::string signal_word(int number) {
    return fmt::format("the server got {}", number == SIGINT    ? "SIGINT"
                                            : number == SIGTERM ? "SIGTERM"
                                                                : "SIGHUP");
  }
  void end(int code, const std::string& why) {
    if (service_.table().verdict()) return loop_.stop();  // it is saying goodbye already: a second signal
    exit_code_ = code;
    std::fputs(fmt::format("trainrun: {}\n", why).c_str(), stderr);
    service_.end_generation({1}, why, io::Loop::now());
    touched();
  }
  void over(const Verdict& verdict) {
    if (verdict.kind != Verdict::Kind::ended) {
      exit_code_ = static_cast<int>(ExitCode::unreachable);
      std::fputs(fmt::format("trainrun: {}\n", describe(verdict)).c_str(), stderr);
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

  Request request_;
  io::Loop& loop_;
  std::unique_ptr<TcpListener> listener_;
  Service service_;
  io::Timer wake_, limit_;
  boost::asio::signal_set& signals_;
  std::uint32_t last_connection_ = 0;
  int exit_code_ = 0;
};

int report(const Error& error) {
  std::fputs(fmt::format("trainrun: {}\n", error.message).c_str(), stderr);
  if (!error.hint.empty()) std::fputs(fmt::format("trainrun: {}\n", error.hint).c_str(), stderr);
  return static_cast<int>(exit_code_of(error.code));
}

}  // namespace

int rendezvous_main(const std::vector<std::string>& words) {
  if (asks_for_help(words)) {
    fmt::print("{}\n{}", usage, explanation);
    return 0;
  }
  const auto request = parse(words);
  if (!request) return report(request.error());
  io::Loop loop;
  auto listener = TcpListener::listen(loop, request->bind);
  if (!listener) return report(listener.error());
  // From here on a signal ends the server in order, which removes the key file.
  boost::asio::signal_set signals(loop.context(), SIGINT, SIGTERM, SIGHUP);
  const auto file = KeyFile::open(request->key_file);
  if (!file) return report(file.error());
  // In the form of environment variables, so that a script can hand the line on as it is.
  fmt::print("TRAINRUN_RENDEZVOUS={} TRAINRUN_KEY_FILE={} TRAINRUN_SIZE={}\n", (*listener)->address(),
             shell_quote(file->path()), request->np);
  std::fflush(stdout);
  return Server(*request, *file, std::move(*listener), loop, signals).run();
}

}  // namespace trainrun::rendezvous
