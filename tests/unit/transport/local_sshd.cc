#include "tests/unit/transport/local_sshd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "launcher/base/fd.h"

extern char** environ;  // NOLINT: POSIX

namespace trainrun::testing {

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "trainrun-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = name;
}

TempDir::~TempDir() {
  // What a test started may write a last file while it ends: then the directory is not empty, and comes
  // again.
  std::error_code failed;
  for (int i = 0; i < 100; ++i) {
    std::filesystem::remove_all(path_, failed);
    if (!failed && !std::filesystem::exists(path_)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void write_file(const std::string& path, const std::string& text, int mode) {
  std::ofstream(path, std::ios::binary) << text;
  chmod(path.c_str(), static_cast<mode_t>(mode));
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::uint16_t free_port() {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  return ntohs(address.sin_port);
}

namespace {

pid_t start(const std::vector<std::string>& argv, int in, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  std::vector<char*> words;
  for (const auto& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t pid = -1;
  const int rc = posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return rc == 0 ? pid : -1;
}

bool answers(std::uint16_t port) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

Ended run_program(const std::vector<std::string>& argv, const std::string& input) {
  signal(SIGPIPE, SIG_IGN);
  auto in = make_pipe().value(), out = make_pipe().value(), err = make_pipe().value();
  const pid_t pid = start(argv, in.first.get(), out.second.get(), err.second.get());
  in.first.reset(), out.second.reset(), err.second.reset();
  if (pid < 0) return {127, {}, "cannot start " + argv[0]};
  Ended ended;
  set_nonblocking(in.second.get(), true);
  std::size_t written = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (out.first || err.first) {
    if (written == input.size()) in.second.reset();
    pollfd fds[3] = {
        {in.second.get(), POLLOUT, 0}, {out.first.get(), POLLIN, 0}, {err.first.get(), POLLIN, 0}};
    if (poll(fds, 3, 1000) < 0 || std::chrono::steady_clock::now() > deadline) break;
    if (fds[0].revents != 0) {
      const auto count = write(in.second.get(), input.data() + written, input.size() - written);
      if (count > 0) {
        written += static_cast<std::size_t>(count);
      } else if (errno != EAGAIN) {
        in.second.reset(), written = input.size();
      }
    }
    for (const int i : {1, 2}) {
      if (fds[i].revents == 0) continue;
      char buffer[4096];
      auto& fd = i == 1 ? out.first : err.first;
      const auto count = read(fd.get(), buffer, sizeof buffer);
      if (count <= 0) {
        fd.reset();
      } else {
        (i == 1 ? ended.out : ended.err).append(buffer, static_cast<std::size_t>(count));
      }
    }
  }
  in.second.reset();
  if (out.first || err.first) kill(pid, SIGKILL);
  int raw = 0;
  waitpid(pid, &raw, 0);
  ended.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  return ended;
}

bool LocalSshd::possible() {
  return access("/usr/sbin/sshd", X_OK) == 0 && access("/usr/bin/ssh-keygen", X_OK) == 0;
}

LocalSshd::LocalSshd(const std::string& more_config) : port_(free_port()) {
  for (const auto* name : {"host", "id", "stranger", "wrong"}) {
    run_program({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", dir_ / name});
  }
  write_file(dir_ / "authorized", read_text(dir_ / "id.pub"));
  const auto port = std::to_string(port_);
  write_file(dir_ / "sshd_config",
             "Port " + port + "\nListenAddress 127.0.0.1\nHostKey " + (dir_ / "host") +
                 "\nAuthorizedKeysFile " + (dir_ / "authorized") +
                 "\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\n"
                 "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                 "SetEnv HOME=" +
                 (dir_ / "home") + " XDG_CACHE_HOME=" + cache() + "\n" + more_config);
  write_file(ssh_config(), "Host *\n  UserKnownHostsFile " + known_hosts() +
                               "\n  GlobalKnownHostsFile /dev/null\n" + "  IdentityFile " + key() +
                               "\n  IdentitiesOnly yes\n");
  if (geteuid() == 0) mkdir("/run/sshd", 0755);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  pid_ = start({"setpriv", "--pdeathsig", "KILL",  // also when a test is aborted
                "/usr/sbin/sshd", "-D", "-f", dir_ / "sshd_config", "-E", dir_ / "sshd.log"},
               null.get(), null.get(), null.get());
  if (pid_ < 0) throw std::runtime_error("sshd cannot be started");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!answers(port_)) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("sshd does not listen: " + log());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // sshd has no other sign of being ready
  }
}

LocalSshd::~LocalSshd() {
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

void LocalSshd::trust() {
  const auto port = std::to_string(port_);
  write_file(known_hosts(),
             "[127.0.0.1]:" + port + ",[localhost]:" + port + " " + read_text(dir_ / "host.pub"));
}

void LocalSshd::trust_wrong() {
  write_file(known_hosts(), "[127.0.0.1]:" + std::to_string(port_) + " " + read_text(dir_ / "wrong.pub"));
}

}  // namespace trainrun::testing
