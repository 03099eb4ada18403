// By hand: measure_ssh [LOGINS] [MEGABYTES]. Median login time, our CPU a login, and the throughput of one
// echo link over libssh, against an sshd of its own on loopback.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "launcher/transport/ssh_pool.h"
#include "tests/unit/transport/echo_image.h"
#include "tests/unit/transport/local_sshd.h"

namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trainrun;
  const int logins = argc > 1 ? std::atoi(argv[1]) : 20;
  const std::size_t bytes = static_cast<std::size_t>(argc > 2 ? std::atoi(argv[2]) : 100) << 20;
  testing::LocalSshd sshd;
  sshd.trust();
  io::Loop loop;
  SshOptions options;
  options.config_file = sshd.ssh_config();
  options.port = sshd.port();
  transport::SshTransport ssh(loop, options, testing::echo_image(), {});
  std::vector<double> times;
  double cpu = 0, begun = 0;
  int left = logins + 1;  // the first one loads libssh and uploads the agent
  transport::Dialled last;
  std::function<void()> next = [&] {
    begun = now_ms();
    ssh.dial(Host{"127.0.0.1"}, seconds(20), [&](Result<transport::Dialled> dialled) {
      if (!dialled) {
        std::printf("%s\n%s\n", dialled.error().message.c_str(), dialled.error().hint.c_str());
        return;
      }
      last = std::move(*dialled);
      const double spent = now_ms() - begun;
      if (left == logins + 1) {
        std::printf("first login, with upload: %.1f ms\n", spent);
        cpu = cpu_ms();
      } else {
        times.push_back(spent);
      }
      if (--left > 0) next();
    });
  };
  next();
  loop.run();
  if (times.empty()) return 1;
  cpu = (cpu_ms() - cpu) / logins;
  std::sort(times.begin(), times.end());
  std::printf("login: median %.1f ms, least %.1f, most %.1f; %.2f ms of our CPU each\n",
              times[times.size() / 2], times.front(), times.back(), cpu);
  const int fd = last.link.get();
  const double start = now_ms(), cpu_before = cpu_ms();
  std::thread writer([&] {
    std::vector<char> block(64 * 1024, 'x');
    for (std::size_t sent = 0; sent < bytes;) {
      const auto count = write(fd, block.data(), std::min(block.size(), bytes - sent));
      if (count <= 0) return;
      sent += static_cast<std::size_t>(count);
    }
    shutdown(fd, SHUT_WR);
  });
  std::vector<char> block(256 * 1024);
  std::size_t got = 0;
  for (ssize_t count = 0; (count = read(fd, block.data(), block.size())) > 0;)
    got += static_cast<std::size_t>(count);
  writer.join();
  const double spent = now_ms() - start;
  std::printf("echo of %zu MiB, %zu came back: %.0f MB/s each way, %.2f s of our CPU\n", bytes >> 20,
              got >> 20, static_cast<double>(got) / spent / 1e3, (cpu_ms() - cpu_before) / 1e3);
  return got == bytes ? 0 : 1;
}
