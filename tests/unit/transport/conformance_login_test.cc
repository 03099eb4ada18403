// What every ssh transport owes the launcher, against a real sshd on loopback: logins.
#include "tests/unit/transport/conformance.h"

using namespace trainrun;
using namespace trainrun::transport;

TEST_SUITE("conformance: logins") {
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
        CHECK(refused.error().hint.find("ssh-keyscan -H -p " + std::to_string(sshd.port()) +
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

  TEST_CASE("auto goes on with OpenSSH where libssh cannot follow, says so, and only there") {
    if (!have_sshd()) return;
    testing::LocalSshd sshd;
    sshd.trust();
    const auto plain = testing::read_text(sshd.ssh_config());
    for (const std::string more :
         {"", "  ProxyCommand busybox nc 127.0.0.1 ", "  ProxyCommand /nonexistent/nc "}) {
      CAPTURE(more);
      testing::write_file(sshd.ssh_config(),
                          plain + (more.empty() ? "" : more + std::to_string(sshd.port()) + "\n"));
      io::Loop loop;
      const auto options = options_for(sshd);
      int made = 0;
      EitherSsh either(kinds()[0].make(loop, options),
                       [&] { return ++made, kinds()[1].make(loop, options); });
      const auto dialled = dial(loop, either, here);
      CHECK(made == (more.empty() ? 0 : 1));
      CHECK(dialled.has_value() == (more.find("nonexistent") == std::string::npos));
      if (dialled) CHECK(dialled->how.empty() == more.empty());
      if (!dialled) CHECK(dialled.error().message.find("ssh") != std::string::npos);
    }
    io::Loop loop;
    EitherSsh either(kinds()[0].make(loop, options_for(sshd)), [&] { return kinds()[1].make(loop, {}); });
    const auto refused = dial(loop, either, Host{"a b"});  // no matter for another ssh
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::config);
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
      int answered = 0;
      for (int i = 0; i < 6; ++i) {
        transport->dial(here, time_limit, [&](Result<Dialled> dialled) {
          CHECK_MESSAGE(dialled, dialled.error().message);
          if (dialled) links.push_back(std::move(*dialled));
          if (++answered == 6) loop.stop();
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
          if (order.size() == dead_hosts + 1) loop.stop();
        });
      }
      transport->dial(here, time_limit, [&](Result<Dialled> dialled) {
        CHECK_MESSAGE(dialled, dialled.error().message);
        order.emplace_back("live");
        if (order.size() == dead_hosts + 1) loop.stop();
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
      const int before = threads_of_ours();
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
      CHECK(threads_of_ours() == before);
    }
  }
}
