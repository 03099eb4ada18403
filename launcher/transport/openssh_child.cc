#include "launcher/transport/openssh_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "launcher/base/exit_status.h"
#include "launcher/base/strings.h"
#include "launcher/transport/ssh_words.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace trainrun::transport {

namespace {

// ssh gets `io` as stdin and stdout, `err` as stderr, default signals, and a session of its own: our ^C is
// not its.
int spawn_ssh(const std::vector<std::string>& command_line, int io, int err, pid_t& pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, io, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, io, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int each :
       {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGUSR1, SIGUSR2}) {
    sigaddset(&signals, each);
  }
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(
      &attributes, static_cast<short>(POSIX_SPAWN_SETSID) | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> words;
  words.reserve(command_line.size() + 1);
  for (const auto& word : command_line) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int rc = posix_spawnp(&pid, words[0], &files, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return rc;
}

}  // namespace

OpensshChild::OpensshChild(DialJob job, BootstrapDialogue dialogue, std::string_view image)
    : job_(std::move(job)), dialogue_(std::move(dialogue)), image_(image) {}

Result<std::unique_ptr<OpensshChild>> OpensshChild::start(DialJob job,
                                                          const std::vector<std::string>& command_line,
                                                          const AgentImage& image, std::string nonce,
                                                          Bootstrap how) {
  auto io = make_socket_pair();
  if (!io) return tl::unexpected(io.error());
  auto err = make_pipe();
  if (!err) return tl::unexpected(err.error());
  const auto name = job.host.name;
  std::unique_ptr<OpensshChild> child(
      new OpensshChild(std::move(job), BootstrapDialogue(image, std::move(nonce), name, how), image.bytes));
  if (const int rc = spawn_ssh(command_line, io->second.get(), err->second.get(), child->pid_); rc != 0) {
    child->pid_ = -1;
    return fail(rc == ENOENT ? Code::not_found : Code::internal,
                fmt::format("{}: ssh cannot be started: {}", name, errno_text(rc)),
                rc == ENOENT ? "apt install openssh-client, or use --transport ssh" : "");
  }
  child->pidfd_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, child->pid_, 0)));
  if (!child->pidfd_) return fail(Code::internal, "pidfd_open: " + errno_text(errno));
  child->link_ = std::move(io->first);
  child->stderr_ = std::move(err->first);
  set_nonblocking(child->stderr_.get(), true);
  return child;
}

OpensshChild::~OpensshChild() {
  if (pid_ < 0) return;
  signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

short OpensshChild::link_events() const {
  if (link_ended_) return 0;
  return static_cast<short>(POLLIN | (to_send_.empty() ? 0 : POLLOUT));
}

void OpensshChild::signal(int number) const {
  if (pid_ > 0) kill(-pid_, number);
}

void OpensshChild::give_up(Error error) {
  link_.reset();
  job_.answer(tl::unexpected(std::move(error)));
  signal(SIGTERM);
}

// Reads no byte beyond the greeting: those belong to whoever gets the link.
void OpensshChild::talk() {
  std::array<char, 16 * 1024> buffer{};
  while (!link_ended_) {
    const auto count = recv(link_.get(), buffer.data(), buffer.size(), MSG_PEEK | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count <= 0) {
      link_ended_ = true;
      return;
    }
    const auto step = dialogue_.feed({buffer.data(), static_cast<std::size_t>(count)});
    if (recv(link_.get(), buffer.data(), step.used, 0) != static_cast<ssize_t>(step.used)) link_ended_ = true;
    switch (step.next) {
      case BootstrapDialogue::Next::need_more:
        break;
      case BootstrapDialogue::Next::send_image:
        to_send_ = image_;
        break;
      case BootstrapDialogue::Next::failed:
        give_up(dialogue_.error());
        return;
      case BootstrapDialogue::Next::ready:
        job_.answer(Dialled{std::move(link_), dialogue_.noise(), [words = words_] { return words->text(); }});
        return;
    }
  }
  while (!to_send_.empty()) {
    const auto count = send(link_.get(), to_send_.data(), to_send_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK)
        to_send_ = {};  // why it does not want more will be read next
      return;
    }
    to_send_.remove_prefix(static_cast<std::size_t>(count));
  }
}

void OpensshChild::hear_stderr() {
  std::array<char, 4096> buffer{};
  while (stderr_) {
    const auto count = read(stderr_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      stderr_.reset();
      return;
    }
    words_->add({buffer.data(), static_cast<std::size_t>(count)});
  }
}

void OpensshChild::late() {
  auto error = silent_host(job_.host.name, "ssh logs in and starts the agent", job_.within);
  const auto words = words_->text();
  if (const auto said = trim(words); !said.empty()) error.message += ": " + quoted(said, 300);
  give_up(std::move(error));
}

bool OpensshChild::reap() {
  int raw = 0;
  if (waitpid(pid_, &raw, WNOHANG) != pid_) return false;
  pid_ = -1;
  if (talking()) talk();  // its last bytes
  hear_stderr();
  if (!talking()) return true;
  // 255 is ssh's own failure; anything else is how the remote command ended: the login went well. 255 without
  // a word is also a remote command that a signal ended: a broken copy of the agent, if the line was quick.
  const auto status = ExitStatus::from_wait(raw);
  const bool own = status == ExitStatus::exited(255) || status.kind != ExitStatus::Kind::exited;
  const bool broken_copy = own && job_.attempts == 0 && trim(words_->text()).empty();
  auto error = own && !broken_copy ? explain_openssh(job_.host, words_->text(), status.describe())
                                   : dialogue_.closed(words_->text());
  ++job_.attempts;
  job_.not_before = std::chrono::steady_clock::now() + pause_after(job_.attempts);
  again_ =
      error.code == Code::try_again && job_.attempts < dial_attempts && job_.not_before < job_.deadline();
  if (again_) {
    link_.reset();
  } else {
    give_up(error.code == Code::try_again ? gave_up(std::move(error), job_.attempts) : std::move(error));
  }
  return true;
}

}  // namespace trainrun::transport
