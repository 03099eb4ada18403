#include "launcher/control/server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <chrono>
#include <map>
#include <utility>

#include "launcher/base/fd.h"
#include "launcher/control/socket_place.h"
#include "launcher/io/turn.h"

namespace trainrun::control {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr std::size_t most_clients = 8;
constexpr std::size_t longest_command_line = 4096;
constexpr int accepts_a_turn = 8;
constexpr Duration accept_pause = milliseconds(100);  // after accept failed, e.g. for lack of descriptors

// A launcher that ends removes the directory, if no other has a socket there: it may go between two steps of
// ours.
Result<Fd> listen_in(const std::string& directory, const std::string& path) {
  constexpr int tries = 5;
  Result<Fd> socket = fail(Code::try_again, fmt::format("{} is removed again and again", directory));
  for (int i = 0; i < tries && !socket; ++i) {
    if (const auto made = make_directory(directory); !made) {
      if (made.error().code == Code::not_found) continue;
      return tl::unexpected(made.error());
    }
    live_jobs(directory);  // removes what dead launchers left
    socket = listen_at(path);
    if (!socket && ::access(directory.c_str(), F_OK) == 0) break;
  }
  return socket;
}

struct Client {
  explicit Client(io::Loop& loop) : socket(loop.context()), deadline(loop) {}
  stream_descriptor socket;
  io::Timer deadline;
  std::string in, out;
  std::size_t sent = 0;
  bool last = false;  // goes when `out` is out
};

}  // namespace

struct ControlServer::State : std::enable_shared_from_this<State> {
  State(io::Loop& the_loop, std::string job, Handler to, CommandLine shown, Duration limit)
      : loop(the_loop),
        acceptor(the_loop.context()),
        pause(the_loop),
        job_id(std::move(job)),
        handler(std::move(to)),
        command_line(std::move(shown)),
        time_limit(limit) {}

  void wait_for_clients() {
    acceptor.async_wait(stream_descriptor::wait_read, [weak = weak_from_this()](const error_code& error) {
      const io::Turn turn;
      const auto self = weak.lock();
      if (self && !error && !self->stopped) self->accept();
    });
  }

  void accept() {
    for (int i = 0; i < accepts_a_turn; ++i) {
      const int fd = ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        welcome(Fd(fd));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        break;
      } else if (errno != EINTR && errno != ECONNABORTED) {
        pause.arm(io::Loop::now() + accept_pause, [weak = weak_from_this()] {
          if (const auto self = weak.lock(); self && !self->stopped) self->wait_for_clients();
        });
        return;
      }
    }
    wait_for_clients();
  }

  void welcome(Fd fd) {
    const auto refuse = [&](const Error& error) {
      const auto line = error_reply(error) + "\n";
      // A fresh socket takes a line; if not, the end of the connection must do.
      if (::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) return;
    };
    if (!may_talk(peer_of(fd.get()).uid, ::geteuid()))
      return refuse({Code::refused, "this job belongs to another user"});
    if (clients.size() >= most_clients)
      return refuse({Code::try_again, fmt::format("{} others are talking to this job", most_clients),
                     "again in a few seconds"});
    const auto number = ++last_client;
    const auto client = std::make_shared<Client>(loop);
    error_code error;
    client->socket.assign(fd.get(), error);
    if (error) return;
    static_cast<void>(fd.release());
    clients.emplace(number, client);
    give_time(number, *client);
    wait_for_words(number, client);
  }

  // For a whole request and its reply, not for each byte: one byte now and then keeps nobody here.
  void give_time(std::uint32_t number, Client& client) {
    client.deadline.arm(io::Loop::now() + time_limit, [weak = weak_from_this(), number] {
      if (const auto self = weak.lock()) self->clients.erase(number);
    });
  }

  template <class Then>
  void wait(std::uint32_t number, const std::shared_ptr<Client>& client, stream_descriptor::wait_type what,
            Then then) {
    client->socket.async_wait(what, [weak = weak_from_this(), number, then](const error_code& error) {
      const io::Turn turn;
      const auto self = weak.lock();
      if (!self || error || self->stopped) return;
      const auto found = self->clients.find(number);
      if (found == self->clients.end()) return;
      const auto kept = found->second;
      (self.get()->*then)(number, kept);
    });
  }
  void wait_for_words(std::uint32_t number, const std::shared_ptr<Client>& client) {
    wait(number, client, stream_descriptor::wait_read, &State::read);
  }

  void read(std::uint32_t number, const std::shared_ptr<Client>& client) {
    char buffer[16384];
    const auto n = ::read(client->socket.native_handle(), buffer, sizeof buffer);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return wait_for_words(number, client);
    if (n <= 0) {
      clients.erase(number);
      return;
    }
    client->in.append(buffer, static_cast<std::size_t>(n));
    go_on(number, client);
  }

  // Answers what is there, one request after the other: nothing is read or answered while a reply waits.
  void go_on(std::uint32_t number, const std::shared_ptr<Client>& client) {
    while (!stopped && !client->last) {
      const auto end = client->in.find('\n');
      if (std::min(end, client->in.size()) > longest_request) {
        client->last = true;
        client->out =
            error_reply({Code::usage, fmt::format("a request has at most {} bytes", longest_request)});
      } else if (end == std::string::npos) {
        return wait_for_words(number, client);
      } else {
        const auto line = client->in.substr(0, end);
        client->in.erase(0, end + 1);
        client->out = answer(line);
      }
      client->out += '\n';
      client->sent = 0;
      if (!flush(number, client)) return;
    }
    // A server that is being destroyed by its own handler still lets that reply out.
    clients.erase(number);
  }

  std::string answer(const std::string& line) {
    const auto request = parse_request(line);
    if (!request) return error_reply(request.error());
    const auto* command = std::get_if<Command>(&*request);
    if (command == nullptr)
      return to_json(Identity{TRAINRUN_VERSION, job_id, ::getpid(), started,
                              command_line().substr(0, longest_command_line)});
    auto reply = handler(*command);
    while (reply.ends_with('\n')) reply.pop_back();
    if (reply.size() <= longest_reply) return reply;
    return error_reply({Code::internal, fmt::format("the answer has more than {} bytes", longest_reply)});
  }

  // Whether all of it is out; else it is waited for, or the client is gone.
  bool flush(std::uint32_t number, const std::shared_ptr<Client>& client) {
    while (client->sent < client->out.size()) {
      const auto n = ::send(client->socket.native_handle(), client->out.data() + client->sent,
                            client->out.size() - client->sent, MSG_NOSIGNAL);
      if (n > 0) {
        client->sent += static_cast<std::size_t>(n);
      } else if (errno == EAGAIN && !stopped) {
        wait(number, client, stream_descriptor::wait_write, &State::write);
        return false;
      } else if (errno != EINTR) {
        clients.erase(number);
        return false;
      }
    }
    client->out = {};
    give_time(number, *client);
    return true;
  }
  void write(std::uint32_t number, const std::shared_ptr<Client>& client) {
    if (flush(number, client)) go_on(number, client);
  }

  io::Loop& loop;
  stream_descriptor acceptor;
  io::Timer pause;
  std::string job_id;
  Handler handler;
  CommandLine command_line;
  Duration time_limit;
  std::map<std::uint32_t, std::shared_ptr<Client>> clients;
  std::uint32_t last_client = 0;
  std::int64_t started = 0;
  // What was bound, so that nothing but our own socket is removed.
  ino_t inode = 0;
  dev_t device = 0;
  pid_t owner = 0;
  bool stopped = false;
};

ControlServer::ControlServer(io::Loop& loop, std::string job_id, std::string runtime_dir, Handler handler,
                             CommandLine command_line, Duration time_limit)
    : loop_(loop),
      job_id_(std::move(job_id)),
      runtime_dir_(std::move(runtime_dir)),
      path_(socket_path(runtime_dir_, job_id_)),
      handler_(std::move(handler)),
      command_line_(std::move(command_line)),
      time_limit_(time_limit) {}

ControlServer::~ControlServer() {
  if (!state_) return;
  state_->stopped = true;
  state_->clients.clear();
  error_code ignored;
  state_->acceptor.close(ignored);
  struct stat status {};
  // A fork of the launcher (an agent) must not take the launcher's socket away.
  const bool ours = state_->owner == ::getpid() && ::lstat(path_.c_str(), &status) == 0 &&
                    status.st_ino == state_->inode && status.st_dev == state_->device;
  if (!ours) return;
  ::unlink(path_.c_str());
  ::rmdir(runtime_dir_.c_str());  // the last launcher leaves nothing; with others in it this fails
}

Result<void> ControlServer::listen() {
  auto socket = listen_in(runtime_dir_, path_);
  if (!socket) return tl::unexpected(socket.error());
  auto state = std::make_shared<State>(loop_, job_id_, handler_, command_line_, time_limit_);
  struct stat status {};
  ::lstat(path_.c_str(), &status);
  state->inode = status.st_ino;
  state->device = status.st_dev;
  state->owner = ::getpid();
  state->started =
      std::chrono::duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  error_code error;
  state->acceptor.assign(socket->get(), error);
  if (error) {
    ::unlink(path_.c_str());
    return fail(Code::internal, fmt::format("cannot wait for {}: {}", path_, error.message()));
  }
  static_cast<void>(socket->release());
  state_ = std::move(state);
  state_->wait_for_clients();
  return {};
}

}  // namespace trainrun::control
