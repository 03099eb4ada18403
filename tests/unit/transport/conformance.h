// What the conformance tests share: both ssh transports, one dial to its end, and looks at processes.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "launcher/transport/either_ssh.h"
#include "launcher/transport/openssh.h"
#include "launcher/transport/ssh_pool.h"
#include "tests/unit/transport/echo_image.h"
#include "tests/unit/transport/local_sshd.h"

namespace trainrun::transport {

inline constexpr auto time_limit = seconds(60);  // against hanging only

using Maker = std::function<std::unique_ptr<Transport>(io::Loop&, const SshOptions&)>;
struct Kind {
  const char* name;
  Maker make;
};
inline const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{{"libssh",
                                      [](io::Loop& loop, const SshOptions& options) {
                                        return std::make_unique<SshTransport>(
                                            loop, options, testing::echo_image(), std::vector<std::string>{});
                                      }},
                                     {"openssh", [](io::Loop& loop, const SshOptions& options) {
                                        return std::make_unique<OpensshTransport>(
                                            loop, options, testing::echo_image(), std::vector<std::string>{});
                                      }}};
  return all;
}

inline SshOptions options_for(const testing::LocalSshd& sshd) {
  SshOptions options;
  options.config_file = sshd.ssh_config();
  options.port = sshd.port();
  return options;
}

// One dial to its end. A transport may go on waiting for its links.
inline Result<Dialled> dial(io::Loop& loop, Transport& transport, const Host& host,
                            Duration within = time_limit) {
  Result<Dialled> result = fail(Code::internal, "no answer came");
  transport.dial(host, within, [&](Result<Dialled> dialled) {
    result = std::move(dialled);
    loop.stop();
  });
  loop.run();
  loop.context().restart();
  return result;
}

inline const Host here{"127.0.0.1"};

// Skips are said, and are failures where everything is required.
inline bool have_sshd() {
  if (testing::LocalSshd::possible()) return true;
  const char* require = getenv("TRAINRUN_REQUIRE");
  CHECK_MESSAGE((require == nullptr || std::string(require) != "all"), "sshd is required");
  MESSAGE("skipped: no sshd");
  return false;
}

inline std::string read_some(int fd, std::size_t size) {
  std::string text;
  pollfd ready{fd, POLLIN, 0};
  while (text.size() < size && poll(&ready, 1, 60'000) == 1) {
    char buffer[65536];
    const auto count = read(fd, buffer, std::min(sizeof buffer, size - text.size()));
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return text;
}

inline bool ends(int fd) {  // EOF comes, after whatever bytes
  pollfd ready{fd, POLLIN, 0};
  char buffer[65536];
  for (;;) {
    if (poll(&ready, 1, 60'000) != 1) return false;
    if (read(fd, buffer, sizeof buffer) <= 0) return true;
  }
}

// Processes whose command line holds `text`, the path of a directory of this test alone.
inline std::vector<pid_t> running(const std::string& text) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto pid = parse_unsigned<std::uint32_t>(entry.path().filename().string());
    if (pid && testing::read_text(entry.path() / "cmdline").find(text) != std::string::npos) {
      found.push_back(static_cast<pid_t>(*pid));
    }
  }
  return found;
}

inline int threads_of_ours() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

// Processes that are not our children, as descriptors that become readable when they end.
class Watched {
 public:
  explicit Watched(const std::vector<pid_t>& pids) {
    for (const auto pid : pids) fds_.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  }
  [[nodiscard]] bool end() const {
    for (const auto& fd : fds_) {
      pollfd ended{fd.get(), POLLIN, 0};
      if (fd && poll(&ended, 1, 60'000) != 1) return false;
    }
    return true;
  }

 private:
  std::vector<Fd> fds_;
};

}  // namespace trainrun::transport
