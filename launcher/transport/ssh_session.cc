#include "launcher/transport/ssh_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/base/open_files.h"
#include "launcher/base/strings.h"
#include "launcher/transport/bootstrap.h"
#include "launcher/transport/last_words.h"
#include "launcher/transport/nonce.h"
#include "launcher/transport/ssh_login.h"

namespace trainrun::transport {
namespace {

// Both are open, and lead to one socket.
bool is_the_same_file(int one, int other) {
  struct stat a {
  }, b{};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

SshSession::SshSession(const SshApi& functions, std::string name)
    : api(functions), host(std::move(name)), session(functions.ssh_new()) {}

SshSession::~SshSession() {
  if (session == nullptr) return;
  if (channel != nullptr) api.ssh_channel_free(channel);
  api.ssh_disconnect(session);
  api.ssh_free(session);
  // libssh 0.10.6 leaves a descriptor open that it was given, older ones close it: then the number is free,
  // or another's.
  if (is_the_same_file(libssh_socket, socket.get())) ::close(libssh_socket);
}

std::string SshSession::words() const {
  const char* text = api.ssh_get_error(session);
  return text == nullptr || *text == '\0' ? "libssh does not say why" : text;
}

Result<void> SshSession::wait(const DialLimit& time_limit, const char* step) {
  const bool writing = (api.ssh_get_poll_flags(session) & SSH_WRITE_PENDING) != 0;
  const auto wake = time_limit.wait(socket.get(), static_cast<short>(POLLIN | (writing ? POLLOUT : 0)));
  if (wake != DialLimit::Wake::ready) return tl::unexpected(time_limit.error(wake, host, step));
  return {};
}

namespace {

Result<void> open_channel(SshSession& session, const std::string& command, const DialLimit& time_limit) {
  const auto& api = session.api;
  session.channel = api.ssh_channel_new(session.session);
  auto rc = session.drive(time_limit, SSH_AGAIN, "opening a session",
                          [&] { return api.ssh_channel_open_session(session.channel); });
  if (rc && *rc == SSH_OK) {
    rc = session.drive(time_limit, SSH_AGAIN, "starting the agent",
                       [&] { return api.ssh_channel_request_exec(session.channel, command.c_str()); });
  }
  if (!rc) return tl::unexpected(rc.error());
  if (*rc == SSH_OK) return {};
  return fail(Code::bootstrap,
              fmt::format("{}: logged in, but may not run a command: {}", session.host, session.words()),
              fmt::format("does `ssh {} true` work?", session.host));
}

// The talk of bootstrap.h over the channel. The image is written while answers are read: the host may refuse
// it in the middle.
Result<SshDialled> start_agent(std::unique_ptr<SshSession> session, const SshPlan& plan,
                               const std::string& nonce, Bootstrap how, const DialLimit& time_limit) {
  const auto& api = session->api;
  BootstrapDialogue dialogue(*plan.image, nonce, session->host, how);
  SshDialled dialled;
  std::string_view to_send;
  std::array<char, 32 * 1024> buffer{};
  for (;;) {
    bool moved = false;
    for (const int is_stderr : {1, 0}) {
      const int count =
          api.ssh_channel_read_nonblocking(session->channel, buffer.data(), buffer.size(), is_stderr);
      if (count == SSH_ERROR) {
        return tl::unexpected(
            dialogue.closed(dialled.last_words.empty() ? session->words() : dialled.last_words));
      }
      if (count <= 0) continue;
      moved = true;
      std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
      if (is_stderr == 1) keep_tail(dialled.last_words, bytes);
      while (is_stderr == 0 && !bytes.empty()) {
        const auto step = dialogue.feed(bytes);
        bytes.remove_prefix(step.used);
        if (step.next == BootstrapDialogue::Next::failed) return tl::unexpected(dialogue.error());
        if (step.next == BootstrapDialogue::Next::send_image) to_send = plan.image->bytes;
        if (step.next == BootstrapDialogue::Next::ready) {
          dialled.first_bytes = bytes;
          dialled.noise = dialogue.noise();
          dialled.session = std::move(session);
          return dialled;
        }
      }
    }
    acknowledge_at_once(session->socket.get());
    const bool ended =
        api.ssh_channel_is_eof(session->channel) != 0 || api.ssh_channel_is_closed(session->channel) != 0;
    if (!moved && ended) return tl::unexpected(dialogue.closed(dialled.last_words));
    const auto window = api.ssh_channel_window_size(session->channel);
    if (!ended && !to_send.empty() && window > 0 &&
        (api.ssh_get_poll_flags(session->session) & SSH_WRITE_PENDING) == 0) {
      const auto size = std::min<std::size_t>({to_send.size(), window, 256 * 1024});
      const int count =
          api.ssh_channel_write(session->channel, to_send.data(), static_cast<std::uint32_t>(size));
      if (count < 0) {
        to_send = {};  // why it does not want more is read next
      } else {
        to_send.remove_prefix(static_cast<std::size_t>(count));
      }
      moved = moved || count != 0;
    }
    if (moved) continue;
    if (auto waited = session->wait(time_limit, "starting the agent"); !waited)
      return tl::unexpected(waited.error());
  }
}

}  // namespace

Result<SshDialled> bring_up(const SshPlan& plan, const Host& host, Bootstrap how,
                            const DialLimit& time_limit) {
  const auto api = load_ssh_api();
  if (!api) {
    auto error = api.error();
    error.message.insert(0, host.name + ": ");
    return tl::unexpected(std::move(error));
  }
  set_ssh_log(**api, plan.log);
  auto nonce = fresh_nonce();
  if (!nonce) return tl::unexpected(nonce.error());
  const auto command = bootstrap_line(*plan.image, *nonce, plan.options.agent_dir, plan.places, how);
  if (!command) return tl::unexpected(command.error());

  auto session = std::make_unique<SshSession>(**api, host.name);
  if (session->session == nullptr) return fail(Code::internal, host.name + ": libssh is out of memory");
  session->api.ssh_set_blocking(session->session, 0);
  const auto target = apply_options(*session, plan.options, host);
  if (!target) return tl::unexpected(target.error());
  auto socket = dial_socket(host.name, target->address, target->port, time_limit);
  if (!socket) return tl::unexpected(socket.error());
  session->socket = std::move(*socket);
  int duplicate = fcntl(session->socket.get(), F_DUPFD_CLOEXEC, 3);
  if (duplicate < 0)
    return fail(Code::internal, host.name + ": " + errno_text(errno), open_files_hint(errno));
  session->libssh_socket = duplicate;
  session->api.ssh_options_set(session->session, SSH_OPTIONS_FD, &duplicate);
  const auto trusted = trust_host(*session, plan.options, *target, time_limit);
  if (!trusted) return tl::unexpected(trusted.error());
  if (auto in = authenticate(*session, host, *target, time_limit); !in) return tl::unexpected(in.error());
  if (auto open = open_channel(*session, *command, time_limit); !open) return tl::unexpected(open.error());
  return start_agent(std::move(session), plan, *nonce, how, time_limit);
}

}  // namespace trainrun::transport
