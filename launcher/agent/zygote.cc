#include "launcher/agent/zygote.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "launcher/agent/preload_rules.h"
#include "launcher/base/strings.h"

extern "C" {
extern const char trainrun_zygote_begin[];
extern const char trainrun_zygote_end[];
}

namespace trainrun::agent {
namespace {

constexpr std::size_t most_output = 4096, most_packet = 64u << 10, most_fds = 8;
constexpr int packets_a_turn = 16;

}  // namespace

struct Zygote::Socket : boost::asio::posix::stream_descriptor {
  explicit Socket(boost::asio::io_context& context) : boost::asio::posix::stream_descriptor(context) {}
};

std::string_view zygote_script() {
  return {trainrun_zygote_begin, static_cast<std::size_t>(trainrun_zygote_end - trainrun_zygote_begin)};
}

Zygote::Zygote(io::Loop& loop, Handlers handlers)
    : loop_(loop),
      handlers_(std::make_shared<Handlers>(std::move(handlers))),
      socket_(std::make_unique<Socket>(loop.context())) {}

Zygote::~Zygote() {
  *handlers_ = {};
  boost::system::error_code ignored;
  socket_->close(ignored);
}

std::unique_ptr<Zygote> Zygote::start(io::Loop& loop, io::ChildRequest request, Handlers handlers,
                                      std::string& error) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    error = errno_text(errno);
    return nullptr;
  }
  Fd ours(ends[0]), theirs(ends[1]);
  set_nonblocking(ours.get(), true);
  std::unique_ptr<Zygote> zygote(new Zygote(loop, std::move(handlers)));
  zygote->socket_->assign(ours.release());
  request.stdin_fd = theirs.get();
  auto* it = zygote.get();
  request.out.heard = request.err.heard = [it](std::string_view bytes) {
    it->output_ += bytes;
    if (it->output_.size() > most_output) it->output_.erase(0, it->output_.size() - most_output);
  };
  auto child = io::Child::start(
      loop, request, {[it](const io::ChildEnd& end) {
        it->hear();  // what it has said before
        auto why = end.by == io::ChildEnd::By::order ? std::string("gave no answer")
                   : end.status                      ? end.status->describe()
                                                     : std::string("has ended");
        if (const auto words = last_line(it->output_); !words.empty())
          why += fmt::format("; its last words: {}", words);
        it->loop_.post([handlers = it->handlers_, why] {
          const auto ended = handlers->ended;  // which may destroy the zygote, and with it its handlers
          if (ended) ended(why);
        });
      }});
  if (!child) {
    error = child.error().describe();
    return nullptr;
  }
  zygote->child_ = std::move(*child);
  zygote->listen();
  return zygote;
}

bool Zygote::send(const std::string& packet, const std::vector<int>& fds) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(most_fds * sizeof(int))> control{};
  if (!socket_->is_open() || fds.empty() || fds.size() > most_fds) return false;
  iovec part{const_cast<char*>(packet.data()), packet.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  auto* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  return ::sendmsg(socket_->native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(packet.size());
}

void Zygote::close() {
  boost::system::error_code ignored;
  socket_->close(ignored);
}

std::string Zygote::take_output() { return std::exchange(output_, {}); }

void Zygote::listen() {
  if (!socket_->is_open()) return;
  socket_->async_wait(socket_->wait_read,
                      [this, handlers = handlers_](const boost::system::error_code& error) {
                        if (error || !handlers->said) return;  // this object may be gone
                        hear();
                        if (handlers->said) listen();
                      });
}

void Zygote::hear() {
  const auto handlers = handlers_;
  std::string packet(most_packet, '\0');
  for (int i = 0; i < packets_a_turn && handlers->said && socket_->is_open(); ++i) {
    const auto count = ::recv(socket_->native_handle(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    if (count == 0) return close();  // its end follows
    const auto said = handlers->said;
    said(fields_of({packet.data(), static_cast<std::size_t>(count)}));
  }
}

}  // namespace trainrun::agent
