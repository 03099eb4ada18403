// What every ssh transport owes the launcher, against a real sshd on loopback.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "launcher/base/strings.h"
#include "launcher/transport/openssh.h"
#include "launcher/transport/ssh_pool.h"
#include "tests/unit/transport/echo_image.h"
#include "tests/unit/transport/local_sshd.h"

using namespace trainrun;
using namespace trainrun::transport;

namespace {

constexpr auto patience = seconds(60);  // against hanging only

using Maker = std::function<std::unique_ptr<Transport>(io::Loop&, const SshOptions&)>;
struct Kind {
  const char* name;
  Maker make;
};
const std::vector<Kind>& kinds() {
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

SshOptions options_for(const testing::LocalSshd& sshd) {
  SshOptions options;
  options.config_file = sshd.ssh_config();
  options.port = sshd.port();
  return options;
}

// One dial to its end.
Result<Dialled> dial(io::Loop& loop, Transport& transport, const Host& host, Duration within = patience) {
  Result<Dialled> result = fail(Code::internal, "no answer came");
  transport.dial(host, within, [&](Result<Dialled> dialled) { result = std::move(dialled); });
  loop.run();
  loop.context().restart();
  return result;
}

const Host here{"127.0.0.1"};

// Skips are said, and are failures where everything is required.
bool have_sshd() {
  if (testing::LocalSshd::possible()) return true;
  const char* require = getenv("TRAINRUN_REQUIRE");
  CHECK_MESSAGE((require == nullptr || std::string(require) != "all"), "sshd is required");
  MESSAGE("skipped: no sshd");
  return false;
}

std::string read_some(int fd, std::size_t size) {
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

bool ends(int fd) {  // EOF comes, after whatever bytes
  pollfd ready{fd, POLLIN, 0};
  char buffer[65536];
  for (;;) {
    if (poll(&ready, 1, 60'000) != 1) return false;
    if (read(fd, buffer, sizeof buffer) <= 0) return true;
  }
}

// Processes whose command line holds `text`, the path of a directory of this test alone.
std::vector<pid_t> running(const std::string& text) {
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

int threads_of_ours() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

}  // namespace

TEST_SUITE("conformance") {
  TEST_CASE("a login starts the agent, uploaded once, and the link carries bytes from the first one on") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      io::Loop loop;
      const auto transport = kind.make(loop, options_for(sshd));
      std::filesystem::file_time_type stored;
      const auto agent = sshd.cache() + "/trainrun/agent-" + testing::echo_image().sha256;
      for (int i = 0; i < 2; ++i) {
        auto dialled = dial(loop, *transport, here);
        REQUIRE_MESSAGE(dialled, dialled.error().message);
        REQUIRE(write_all(dialled->link.get(), "first bytes\n"));
        CHECK(read_some(dialled->link.get(), 12) == "first bytes\n");
        CHECK(std::filesystem::exists(agent));
        if (i == 0) stored = std::filesystem::last_write_time(agent);
        CHECK(std::filesystem::last_write_time(agent) == stored);
      }
    }
  }

  TEST_CASE("100 MB go both ways intact, and half-closing ends the agent after its last byte") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      io::Loop loop;
      const auto transport = kind.make(loop, options_for(sshd));
      auto dialled = dial(loop, *transport, here);
      REQUIRE_MESSAGE(dialled, dialled.error().message);
      const int fd = dialled->link.get();
      constexpr std::size_t total = 100'000'000;
      const auto byte_at = [](std::size_t at) { return static_cast<char>((at * 2654435761U) >> 13); };
      std::thread writer([&] {
        std::string block(1 << 16, '\0');
        for (std::size_t sent = 0; sent < total; sent += block.size()) {
          block.resize(std::min(block.size(), total - sent));
          for (std::size_t i = 0; i < block.size(); ++i) block[i] = byte_at(sent + i);
          if (!write_all(fd, block)) return;
        }
        shutdown(fd, SHUT_WR);
      });
      std::size_t got = 0, wrong = 0;
      for (;;) {
        const auto block = read_some(fd, 1 << 18);
        if (block.empty()) break;
        for (std::size_t i = 0; i < block.size(); ++i) wrong += block[i] == byte_at(got + i) ? 0U : 1U;
        got += block.size();
      }
      writer.join();
      CHECK(got == total);
      CHECK(wrong == 0);
    }
  }

  TEST_CASE("a launcher that does not read stops the host, in bounded memory, and loses nothing") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      io::Loop loop;
      const auto transport = kind.make(loop, options_for(sshd));
      auto dialled = dial(loop, *transport, here);
      REQUIRE_MESSAGE(dialled, dialled.error().message);
      const int fd = dialled->link.get();
      constexpr std::size_t total = 100'000'000;
      const std::string block(64 * 1024, 'b');
      // The echo comes back and is not read: when nothing has been taken for a second, every buffer on the
      // way is full. Windows, sockets and pipes of both ends hold a few MB each.
      std::size_t sent = 0;
      for (pollfd ready{fd, POLLOUT, 0}; sent < total && poll(&ready, 1, 1000) == 1;) {
        const auto count = send(fd, block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count > 0) sent += static_cast<std::size_t>(count);
      }
      CHECK(sent < 40'000'000);
      CHECK(read_some(fd, sent).size() == sent);
    }
  }

  TEST_CASE("an unknown host key is refused with its fingerprint and the line to type") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      io::Loop loop;
      const auto transport = kind.make(loop, options_for(sshd));
      const auto refused = dial(loop, *transport, here);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == Code::host_key);
      CHECK(refused.error().message.starts_with("127.0.0.1: "));
      CHECK(refused.error().hint.find("--ssh-accept-new") != std::string::npos);
      if (std::string(kind.name) == "libssh") {
        const auto fingerprint = testing::run_program({"ssh-keygen", "-lf", sshd.dir() / "host.pub"}).out;
        const auto word = fingerprint.substr(fingerprint.find("SHA256:"), 50);
        CHECK(refused.error().message.find(word) != std::string::npos);
        CHECK(refused.error().hint.find("ssh-keyscan -p " + std::to_string(sshd.port()) +
                                        " -t ssh-ed25519 127.0.0.1 >> " + sshd.known_hosts()) !=
              std::string::npos);
      }
    }
  }

  TEST_CASE("--ssh-accept-new adds an unknown key once, and the next login needs it no more") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      io::Loop loop;
      auto options = options_for(sshd);
      options.accept_new = true;
      auto first = dial(loop, *kind.make(loop, options), here);
      CHECK_MESSAGE(first, first.error().message);
      const auto known = testing::read_text(sshd.known_hosts());
      CHECK(std::count(known.begin(), known.end(), '\n') == 1);
      auto second = dial(loop, *kind.make(loop, options_for(sshd)), here);
      CHECK_MESSAGE(second, second.error().message);
      CHECK(testing::read_text(sshd.known_hosts()) == known);
    }
  }

  TEST_CASE("hashed names in known_hosts are understood") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      REQUIRE(testing::run_program({"ssh-keygen", "-q", "-H", "-f", sshd.known_hosts()}).status == 0);
      REQUIRE(testing::read_text(sshd.known_hosts()).starts_with("|1|"));
      io::Loop loop;
      const auto dialled = dial(loop, *kind.make(loop, options_for(sshd)), here);
      CHECK_MESSAGE(dialled, dialled.error().message);
    }
  }

  TEST_CASE(
      "a changed host key is refused loudly, also with --ssh-accept-new and with checks off in ssh_config") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust_wrong();
      testing::write_file(sshd.ssh_config(),
                          testing::read_text(sshd.ssh_config()) + "  StrictHostKeyChecking no\n");
      io::Loop loop;
      auto options = options_for(sshd);
      for (const bool accept_new : {false, true}) {
        options.accept_new = accept_new;
        const auto refused = dial(loop, *kind.make(loop, options), here);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == Code::host_key);
        CHECK(refused.error().message.find("CHANGED") != std::string::npos);
      }
    }
  }

  TEST_CASE("an unknown key stays refused when ssh_config switches the check off") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      testing::write_file(sshd.ssh_config(),
                          testing::read_text(sshd.ssh_config()) + "  StrictHostKeyChecking no\n");
      io::Loop loop;
      const auto refused = dial(loop, *kind.make(loop, options_for(sshd)), here);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == Code::host_key);
    }
  }

  TEST_CASE("a host that takes none of our keys is reported with what was tried") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      testing::write_file(sshd.ssh_config(), "Host *\n  UserKnownHostsFile " + sshd.known_hosts() +
                                                 "\n  IdentityFile " + sshd.other_key() +
                                                 "\n  IdentitiesOnly yes\n");
      io::Loop loop;
      auto options = options_for(sshd);
      const auto refused = dial(loop, *kind.make(loop, options), here);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == Code::auth);
      CHECK(refused.error().message.find(std::string(kind.name) == "libssh"
                                             ? sshd.other_key()
                                             : "Permission denied") != std::string::npos);
      CHECK(refused.error().hint.find("ssh-copy-id") != std::string::npos);
      options.identity = sshd.key();  // -i comes before the configuration
      const auto accepted = dial(loop, *kind.make(loop, options), here);
      CHECK_MESSAGE(accepted, accepted.error().message);
      Host named = here;
      named.identity = sshd.key(), options.identity = sshd.other_key();  // the host's own before -i
      const auto own = dial(loop, *kind.make(loop, options), named);
      CHECK_MESSAGE(own, own.error().message);
    }
  }

  TEST_CASE("a key in the ssh agent is used, and one with a passphrase is named and never asked for") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      const auto locked = sshd.dir() / "locked";
      testing::write_file(locked, testing::read_text(sshd.key()));
      REQUIRE(testing::run_program({"ssh-keygen", "-q", "-p", "-N", "secret", "-f", locked}).status == 0);
      testing::write_file(sshd.ssh_config(), "Host *\n  UserKnownHostsFile " + sshd.known_hosts() +
                                                 "\n  IdentityFile " + locked + "\n");
      io::Loop loop;
      const auto options = options_for(sshd);
      unsetenv("SSH_AUTH_SOCK");
      const auto refused = dial(loop, *kind.make(loop, options), here);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == Code::auth);
      if (std::string(kind.name) == "libssh") {
        CHECK(refused.error().message.find(locked + ": has a passphrase") != std::string::npos);
      }
      const auto socket = sshd.dir() / "agent.socket";
      const auto started = testing::run_program({"ssh-agent", "-s", "-a", socket});
      const auto at = started.out.find("SSH_AGENT_PID=");
      REQUIRE(at != std::string::npos);
      const auto agent = static_cast<pid_t>(std::atoi(started.out.c_str() + at + 14));
      REQUIRE(agent > 1);
      setenv("SSH_AUTH_SOCK", socket.c_str(), 1);
      CHECK(testing::run_program({"ssh-add", "-q", sshd.key()}).status == 0);
      const auto accepted = dial(loop, *kind.make(loop, options), here);
      unsetenv("SSH_AUTH_SOCK");
      kill(agent, SIGTERM);
      CHECK_MESSAGE(accepted, accepted.error().message);
    }
  }

  TEST_CASE("a ProxyCommand is followed by OpenSSH, and libssh says to use that") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      testing::write_file(sshd.ssh_config(), testing::read_text(sshd.ssh_config()) +
                                                 "  ProxyCommand busybox nc 127.0.0.1 " +
                                                 std::to_string(sshd.port()) + "\n");
      io::Loop loop;
      const auto dialled = dial(loop, *kind.make(loop, options_for(sshd)), here);
      if (std::string(kind.name) == "openssh") {
        CHECK_MESSAGE(dialled, dialled.error().message);
      } else {
        REQUIRE_FALSE(dialled);
        CHECK(dialled.error().code == Code::config);
        CHECK(dialled.error().hint.find("--transport openssh") != std::string::npos);
      }
    }
  }

  TEST_CASE("an sshd that refuses half-open connections (MaxStartups) is asked again") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd("MaxStartups 2:100:2\n");
      sshd.trust();
      io::Loop loop;
      const auto transport = kind.make(loop, options_for(sshd));
      std::vector<Dialled> links;
      for (int i = 0; i < 6; ++i) {
        transport->dial(here, patience, [&](Result<Dialled> dialled) {
          CHECK_MESSAGE(dialled, dialled.error().message);
          if (dialled) links.push_back(std::move(*dialled));
        });
      }
      loop.run();
      CHECK(links.size() == 6);
      CHECK(sshd.log().find("MaxStartups") != std::string::npos);  // it did refuse some
    }
  }

  TEST_CASE("a session that ends before the agent speaks is explained by what the host said") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      for (const std::string command :
           {"echo no logins here; exit 1", "echo no logins here >&2; exit 1", "kill -9 $PPID"}) {
        CAPTURE(command);
        testing::LocalSshd sshd("ForceCommand " + command + "\n");
        sshd.trust();
        io::Loop loop;
        const auto ended = dial(loop, *kind.make(loop, options_for(sshd)), here);
        REQUIRE_FALSE(ended);
        CHECK(ended.error().code == Code::bootstrap);
        if (command.starts_with("echo"))
          CHECK(ended.error().message.find("no logins here") != std::string::npos);
      }
    }
  }

  TEST_CASE("a closed port is reported in the system's words") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      io::Loop loop;
      SshOptions options;
      options.config_file = "/dev/null", options.port = testing::free_port();
      const auto refused = dial(loop, *kind.make(loop, options), here);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == Code::unreachable);
      CHECK(refused.error().message.find("Connection refused") != std::string::npos);
    }
  }

  TEST_CASE("a port that accepts and stays silent costs its own deadline, and delays nobody else") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      const Fd silent(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof address;
      REQUIRE(bind(silent.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
      REQUIRE(listen(silent.get(), 128) == 0);
      REQUIRE(getsockname(silent.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
      io::Loop loop;
      const auto transport = kind.make(loop, options_for(sshd));
      Host dead = here;
      dead.port = ntohs(address.sin_port);
      std::vector<std::string> order;
      constexpr int dead_hosts = 20;  // more than there are dial threads at first
      for (int i = 0; i < dead_hosts; ++i) {
        transport->dial(dead, seconds(6), [&](Result<Dialled> dialled) {
          REQUIRE_FALSE(dialled);
          CHECK(dialled.error().code == Code::timeout);
          order.emplace_back("silent");
        });
      }
      transport->dial(here, patience, [&](Result<Dialled> dialled) {
        CHECK_MESSAGE(dialled, dialled.error().message);
        order.emplace_back("live");
      });
      loop.run();
      REQUIRE(order.size() == dead_hosts + 1);
      CHECK(order.front() == "live");
    }
  }

  TEST_CASE("a name with shell characters is refused before anything is run or connected") {
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      const testing::TempDir dir;
      io::Loop loop;
      SshOptions options;
      options.config_file = "/dev/null";
      const auto transport = kind.make(loop, options);
      for (const auto& name :
           {"-oProxyCommand=touch " + dir / "x", "$(touch " + dir / "x" + ")", "a;touch " + dir / "x"}) {
        const auto refused = dial(loop, *transport, Host{name});
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == Code::config);
      }
      Host host = here;
      host.user = "x`touch " + dir / "x" + "`";
      CHECK(dial(loop, *transport, host).error().code == Code::config);
      CHECK_FALSE(std::filesystem::exists(dir / "x"));
      CHECK(threads_of_ours() <= 2);  // openssh's, at the most
    }
  }

  TEST_CASE("a closed link ends the remote agent, and a dead agent ends the link") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      io::Loop loop;
      const auto transport = kind.make(loop, options_for(sshd));
      const auto agents = [&] { return running(sshd.cache() + "/trainrun/agent-"); };
      const auto gone = [&] {
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (!agents().empty() && std::chrono::steady_clock::now() < deadline) {
          std::this_thread::sleep_for(milliseconds(5));  // another process's end: nothing to wait on
        }
        return agents().empty();
      };
      auto dialled = dial(loop, *transport, here);
      REQUIRE_MESSAGE(dialled, dialled.error().message);
      CHECK(agents().size() == 1);
      dialled->link.reset();
      CHECK(gone());
      dialled = dial(loop, *transport, here);
      REQUIRE_MESSAGE(dialled, dialled.error().message);
      REQUIRE(agents().size() == 1);
      REQUIRE(kill(agents().front(), SIGKILL) == 0);
      CHECK(ends(dialled->link.get()));
    }
  }

  TEST_CASE("destroying the transport ends links, dials and threads at once") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      const int before = threads_of_ours();
      io::Loop loop;
      auto transport = kind.make(loop, options_for(sshd));
      const auto live = dial(loop, *transport, here);
      REQUIRE_MESSAGE(live, live.error().message);
      Host nowhere{"192.0.2.1"};                // for documentation: nobody answers, or the network says so
      REQUIRE(kill(sshd.pid(), SIGSTOP) == 0);  // accepts, and stays silent
      bool called = false;
      for (int i = 0; i < 30; ++i) transport->dial(here, patience, [&](Result<Dialled>) { called = true; });
      transport->dial(nowhere, patience, [&](Result<Dialled>) { called = true; });
      const auto begun = std::chrono::steady_clock::now();
      transport.reset();
      CHECK(std::chrono::steady_clock::now() - begun < seconds(10));  // the promise is one
      kill(sshd.pid(), SIGCONT);
      CHECK(ends(live->link.get()));
      loop.run();
      CHECK_FALSE(called);
      CHECK(threads_of_ours() <= before);
      CHECK(running(sshd.ssh_config()).empty());  // no ssh of ours
    }
  }
}
