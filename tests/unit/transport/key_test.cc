// Key files and ssh agents, as they are found before and during a login.
#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <chrono>
#include <string>
#include <thread>

#include "launcher/transport/key_agent.h"
#include "launcher/transport/key_file.h"
#include "tests/unit/transport/local_sshd.h"

using namespace trainrun;
using namespace trainrun::transport;

TEST_SUITE("keys") {
  TEST_CASE("what a key file holds is seen without its passphrase") {
    const std::string end = "\n-----END OPENSSH PRIVATE KEY-----\n",
                      begin = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
    struct Row {
      std::string text;
      KeyKind kind;
    };
    for (const Row& row :
         {Row{begin + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ==" + end, KeyKind::plain},
          Row{begin + "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0" + end, KeyKind::has_passphrase},
          Row{begin + "nonsense" + end, KeyKind::none},
          Row{begin + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ==\n", KeyKind::cut_off},
          Row{"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n", KeyKind::plain},
          Row{"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE\n-----END RSA PRIVATE "
              "KEY-----\n",
              KeyKind::has_passphrase},
          Row{"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE\n-----END ENCRYPTED PRIVATE KEY-----\n",
              KeyKind::has_passphrase},
          Row{"ssh-ed25519 AAAAC3 me\n", KeyKind::public_half}, Row{"", KeyKind::none},
          Row{"hello\n", KeyKind::none},
          Row{"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----\n", KeyKind::none}}) {
      CAPTURE(row.text);
      CHECK(key_kind(row.text) == row.kind);
    }
  }

  TEST_CASE("a key with a passphrase is good where an ssh agent may have it") {
    const testing::TempDir dir;
    const std::string path = dir / "key";
    testing::write_file(path,
                        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE\n-----END ENCRYPTED PRIVATE KEY-----\n");
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    CHECK(check_key_file(path, true).has_value());
    const auto alone = check_key_file(path, false);
    REQUIRE_FALSE(alone);
    CHECK(alone.error().code == Code::config);
    CHECK(alone.error().hint.find("ssh-add") != std::string::npos);
    CHECK(key_problem(path).find("has a passphrase") != std::string::npos);
  }

  TEST_CASE("an ssh agent that does not answer is left after two seconds, one that is gone at once") {
    const testing::TempDir dir;
    const std::string path = dir / "agent";
    const Fd cancel(::eventfd(0, EFD_CLOEXEC));
    const auto ask = [&] {
      return agent_problem(path, DialLimit(std::chrono::steady_clock::now(), seconds(60), cancel.get()));
    };
    CHECK(ask().why == path + ": No such file or directory");

    Fd agent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path.copy(name.sun_path, sizeof name.sun_path - 1);
    REQUIRE(::bind(agent.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
    CHECK(ask().why == path + ": Connection refused");
    REQUIRE(::listen(agent.get(), 5) == 0);
    const auto hangs = ask();
    CHECK(hangs.hangs);
    CHECK(hangs.why == path + ": no answer");
    std::thread answering([&] {
      const Fd given_up(::accept4(agent.get(), nullptr, nullptr, SOCK_CLOEXEC));  // by the question before
      const Fd peer(::accept4(agent.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char question[5];
      CHECK(::recv(peer.get(), question, sizeof question, MSG_WAITALL) == 5);
      CHECK(::send(peer.get(), "\0\0\0\5\14\0\0\0\0", 9, MSG_NOSIGNAL) == 9);
    });
    const auto alive = ask();
    answering.join();
    CHECK(alive.why.empty());
    CHECK_FALSE(alive.hangs);
  }
}
