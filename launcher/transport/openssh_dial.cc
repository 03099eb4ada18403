#include "launcher/transport/openssh_dial.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

#include "launcher/base/exit_status.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "launcher/io/spawn.h"
#include "launcher/io/turn.h"
#include "launcher/transport/bootstrap.h"
#include "launcher/transport/nonce.h"
#include "launcher/transport/openssh_arguments.h"
#include "launcher/transport/openssh_words.h"
#include "launcher/transport/ssh_words.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace trainrun::transport {

using boost::asio::posix::stream_descriptor;

namespace {

constexpr Duration grace = seconds(2);  // between TERM and KILL of an ssh that is not wanted any more
constexpr Duration held_open = milliseconds(200);  // its stderr, by a master connection that stays

// With what ssh gives to the ssh of a jump host too, which does not get our BatchMode: ask nobody.
std::vector<std::string> environment_of_ssh() {
  std::vector<std::string> words{"SSH_ASKPASS_REQUIRE=never"};
  for (char** word = environ; word != nullptr && *word != nullptr; ++word)
    if (!std::string_view(*word).starts_with("SSH_ASKPASS")) words.emplace_back(*word);
  return words;
}

std::string path_of(const std::vector<std::string>& environment) {
  for (const auto& word : environment) {
    if (word.starts_with("PATH=")) return word.substr(5);
  }
  return "/usr/bin:/bin";
}

}  // namespace

struct OpensshDial::Talk {
  Talk(io::Loop& loop, const AgentImage& image, std::string nonce, const std::string& host, Bootstrap how)
      : link(loop.context()), dialogue(image, std::move(nonce), host, how) {}
  stream_descriptor link;
  BootstrapDialogue dialogue;
  std::string_view to_send{};
  bool ended = false;  // no more bytes will come; the process's end says why
};

OpensshDial::OpensshDial(io::Loop& loop, const Shared& shared, DialJob job, std::function<void()> over)
    : loop_(loop), shared_(shared), job_(std::move(job)), over_(std::move(over)), timer_(loop) {}
OpensshDial::~OpensshDial() = default;

void OpensshDial::start() {
  auto started = start_ssh();
  if (started) return;
  give_up(std::move(started.error()));
  const auto over = over_;
  over();
}

Result<void> OpensshDial::start_ssh() {
  const auto how = job_.attempts == 0 ? Bootstrap::quick : Bootstrap::careful;
  auto nonce = fresh_nonce();
  if (!nonce) return tl::unexpected(nonce.error());
  auto line = bootstrap_line(shared_.image, *nonce, shared_.options.agent_dir, shared_.places, how);
  if (!line) return tl::unexpected(line.error());
  auto ends = make_socket_pair();
  if (!ends) return tl::unexpected(ends.error());
  io::ChildRequest request;
  request.argv = openssh_arguments(job_.host, shared_.options, *line);
  request.env = environment_of_ssh();
  const auto program = io::find_program(request.argv.front(), path_of(request.env), ".");
  const auto cannot = [&](int error, const std::string& why) {
    return fail(error == ENOENT ? Code::unreachable : Code::internal,
                fmt::format("{}: ssh cannot be started: {}", job_.host.name, why),
                error == ENOENT ? "apt install openssh-client, or use --transport ssh" : "");
  };
  if (program.error != 0) return cannot(program.error, errno_text(program.error));
  request.path = program.path;
  request.stdin_fd = request.out.fd = ends->second.get();
  words_ = std::make_shared<LastWords>();
  request.err.heard = [words = words_](std::string_view bytes) { words->add(bytes); };
  request.grace = grace;
  request.drain = held_open;
  request.farewell = Duration::zero();
  request.whole_group = false;  // a master connection (ControlPersist) is to stay
  auto talk = std::make_shared<Talk>(loop_, shared_.image, std::move(*nonce), job_.host.name, how);
  boost::system::error_code error;
  talk->link.assign(ends->first.get(), error);
  if (error) return fail(Code::internal, "epoll: " + error.message());
  static_cast<void>(ends->first.release());
  auto child = io::Child::start(loop_, request,
                                {[this](const io::ChildEnd& end) { ended(end); },
                                 [this] {
                                   const auto over = over_;
                                   if (answered_) over();
                                 }});
  if (!child) return cannot(child.error().number, child.error().describe());
  child_ = std::move(*child);
  talk_ = std::move(talk);
  timer_.arm(job_.deadline(), [this] { late(); });
  wait_readable();
  return {};
}

// While there is this talk, there is its dial.
void OpensshDial::wait_readable() {
  talk_->link.async_wait(stream_descriptor::wait_read,
                         [this, weak = std::weak_ptr<Talk>(talk_)](const boost::system::error_code& error) {
                           const io::Turn turn;
                           if (!error && !weak.expired()) talk();
                         });
}

void OpensshDial::wait_writable() {
  talk_->link.async_wait(stream_descriptor::wait_write,
                         [this, weak = std::weak_ptr<Talk>(talk_)](const boost::system::error_code& error) {
                           const io::Turn turn;
                           if (!error && !weak.expired()) send_image();
                         });
}

// Reads no byte beyond the greeting: those belong to whoever gets the link.
void OpensshDial::talk() {
  std::array<char, 16 * 1024> buffer;
  while (talk_ && !talk_->ended) {
    const int link = talk_->link.native_handle();
    const auto count = ::recv(link, buffer.data(), buffer.size(), MSG_PEEK | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wait_readable();
    if (count <= 0) {
      talk_->ended = true;
      return;
    }
    const auto step = talk_->dialogue.feed({buffer.data(), static_cast<std::size_t>(count)});
    if (::recv(link, buffer.data(), step.used, 0) != static_cast<ssize_t>(step.used)) talk_->ended = true;
    switch (step.next) {
      case BootstrapDialogue::Next::need_more:
        break;
      case BootstrapDialogue::Next::send_image:
        talk_->to_send = shared_.image.bytes;
        send_image();
        break;
      case BootstrapDialogue::Next::failed:
        return give_up(talk_->dialogue.error());
      case BootstrapDialogue::Next::ready: {
        Fd handed_over(talk_->link.release());
        set_nonblocking(handed_over.get(), false);
        answer(Dialled{std::move(handed_over), talk_->dialogue.noise(),
                       [words = words_] { return words->text(); }});
        talk_.reset();
        return;
      }
    }
  }
}

void OpensshDial::send_image() {
  while (talk_ && !talk_->to_send.empty()) {
    auto& rest = talk_->to_send;
    const auto count =
        ::send(talk_->link.native_handle(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wait_writable();
    if (count < 0) {
      rest = {};  // why it does not want more will be read next
      return;
    }
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
}

void OpensshDial::answer(Result<Dialled> result) {
  answered_ = true;
  timer_.disarm();
  job_.answer(std::move(result));
}

void OpensshDial::give_up(Error error) {
  talk_.reset();
  answer(tl::unexpected(std::move(error)));
  if (child_) child_->end();
}

void OpensshDial::late() {
  auto error = silent_host(job_.host.name, "ssh logs in and starts the agent", job_.within);
  const auto words = words_->text();
  if (const auto said = trim(words); !said.empty()) error.message += ": " + quoted(said, 300);
  give_up(std::move(error));
}

void OpensshDial::ended(const io::ChildEnd& end) {
  talk();  // its last bytes
  if (answered_) return;
  // 255 is ssh's own failure; anything else is how the remote command ended: the login went well. 255 without
  // a word is also a remote command that a signal ended: a broken copy of the agent, if the line was quick.
  const auto status = end.status.value_or(ExitStatus::lost("nobody knows how it ended"));
  const bool own = status == ExitStatus::exited(255) || status.kind != ExitStatus::Kind::exited;
  const bool broken_copy = own && job_.attempts == 0 && trim(words_->text()).empty();
  auto error = own && !broken_copy ? explain_openssh(job_.host, words_->text(), status.describe())
                                   : talk_->dialogue.closed(words_->text());
  ++job_.attempts;
  job_.not_before = io::Loop::now() + pause_after(job_.attempts);
  const bool again =
      error.code == Code::try_again && job_.attempts < dial_attempts && job_.not_before < job_.deadline();
  if (!again)
    return give_up(error.code == Code::try_again ? gave_up(std::move(error), job_.attempts)
                                                 : std::move(error));
  talk_.reset();
  timer_.arm(job_.not_before, [this] { start(); });
}

std::unique_ptr<io::Child> OpensshDial::give_up_child() {
  timer_.disarm();
  talk_.reset();
  return std::move(child_);
}

}  // namespace trainrun::transport
