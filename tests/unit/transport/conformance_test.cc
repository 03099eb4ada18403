// What every ssh transport owes the launcher, against a real sshd on loopback: links.
#include "tests/unit/transport/conformance.h"

using namespace trainrun;
using namespace trainrun::transport;

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

  TEST_CASE("a closed link ends the remote agent, and a dead agent ends the link") {
    if (!have_sshd()) return;
    for (const auto& kind : kinds()) {
      CAPTURE(kind.name);
      testing::LocalSshd sshd;
      sshd.trust();
      io::Loop loop;
      const auto transport = kind.make(loop, options_for(sshd));
      const auto agents = [&] { return running(sshd.cache() + "/trainrun/agent-"); };
      auto dialled = dial(loop, *transport, here);
      REQUIRE_MESSAGE(dialled, dialled.error().message);
      CHECK(agents().size() == 1);
      const Watched agent(agents());
      dialled->link.reset();
      CHECK(agent.end());
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
      for (int i = 0; i < 30; ++i) transport->dial(here, time_limit, [&](Result<Dialled>) { called = true; });
      transport->dial(nowhere, time_limit, [&](Result<Dialled>) { called = true; });
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
