#include <doctest/doctest.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/transport/factory.h"
#include "launcher/transport/openssh_arguments.h"
#include "launcher/transport/openssh_words.h"
#include "launcher/transport/own_names.h"
#include "launcher/transport/ssh_words.h"

using namespace trainrun;
using namespace trainrun::transport;

TEST_SUITE("ssh words") {
  TEST_CASE("only plain names reach ssh") {
    for (const std::string good :
         {"gpu1", "gpu1.cluster.example", "10.0.0.7", "fd00::7", "fe80::1%eth0", "a_b-c"}) {
      CAPTURE(good);
      CHECK(is_host_name(good));
    }
    for (const std::string& bad :
         {std::string(), std::string("-oProxyCommand=x"), std::string("a b"), std::string("a;b"),
          std::string("$(x)"), std::string("a`b`"), std::string("a\nb"), std::string("a\0b", 3),
          std::string("a@b"), std::string("a/b"), std::string("%h"), std::string("fe80::1%;x"),
          std::string(".a"), std::string(256, 'a'), std::string("h\xc3\xa4")}) {
      CAPTURE(bad);
      CHECK_FALSE(is_host_name(bad));
    }
    for (const std::string bad : {"", "-l", "a b", "a;b", "$x", "a@b", "a'b", "root\n", "%u", "a\\b"}) {
      CAPTURE(bad);
      CHECK_FALSE(is_user_name(bad));
    }
    CHECK(is_user_name("first.last-2_x"));
    Host host{"gpu1"};
    host.user = "x;y";
    CHECK(check_names(host).error().code == Code::config);
  }

  TEST_CASE("an unknown key is reported with its fingerprint and the line to type") {
    const auto error = unknown_host_key("gpu1", {"/home/u/.ssh/known_hosts", "gpu1.real", 2222},
                                        {"ssh-ed25519", "SHA256:abc"});
    CHECK(error.code == Code::host_key);
    CHECK(error.message == "gpu1: its host key is not known: ssh-ed25519 SHA256:abc");
    CHECK(error.hint.find("ssh-keyscan -H -p 2222 -t ssh-ed25519 gpu1.real >> /home/u/.ssh/known_hosts") !=
          std::string::npos);
    CHECK(error.hint.find("--ssh-accept-new") != std::string::npos);
  }

  TEST_CASE("a changed key is loud and says how to remove the old one") {
    const auto error = changed_host_key("gpu1", {"/k", "gpu1", 22}, {"ssh-ed25519", "SHA256:abc"});
    CHECK(error.message.find("HAS CHANGED") != std::string::npos);
    CHECK(error.hint.find("ssh-keygen -f /k -R 'gpu1' && ssh-keyscan -H -t ssh-ed25519 gpu1 >> /k") !=
          std::string::npos);
    CHECK(changed_host_key("h", {"/k", "h", 5}, {"t", "f"}).hint.find("-R '[h]:5'") != std::string::npos);
  }

  TEST_CASE("what OpenSSH prints becomes one of our codes") {
    struct Row {
      std::string words;
      Code code;
    };
    for (const Row& row :
         {Row{"Host key verification failed.\n", Code::host_key},
          Row{"@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n",
              Code::host_key},
          Row{"u@gpu1: Permission denied (publickey).\r\n", Code::auth},
          Row{"ssh: connect to host gpu1 port 22: Connection refused\n", Code::unreachable},
          Row{"ssh: Could not resolve hostname gpu1: Name or service not known\n", Code::unreachable},
          Row{"kex_exchange_identification: Connection closed by remote host\n", Code::try_again},
          Row{"something else\n", Code::bootstrap}, Row{"", Code::bootstrap}}) {
      CAPTURE(row.words);
      const auto error = explain_openssh(Host{"gpu1"}, row.words, "exited with code 255");
      CHECK(error.code == row.code);
      CHECK(error.message.starts_with("gpu1: "));
      CHECK_FALSE(error.hint.empty());
    }
  }

  TEST_CASE("a key that has changed is told with the line that has the old one, also of a jump host") {
    const std::string words =
        "@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nOffending ED25519 key in "
        "/root/.ssh/known_hosts:3\nHost key verification failed.\r\n";
    constexpr auto line =
        "REMOTE HOST IDENTIFICATION HAS CHANGED; 'Offending ED25519 key in /root/.ssh/known_hosts:3'";
    const auto own = explain_openssh(Host{"gpu1"}, words, "exited with code 255");
    CHECK(own.message == std::string("gpu1: ssh says: ") + line);
    const auto jump = explain_openssh(Host{"gpu1"},
                                      words +
                                          "kex_exchange_identification: Connection closed by remote "
                                          "host\r\nConnection closed by UNKNOWN port "
                                          "65535\r\n",
                                      "exited with code 255");
    CHECK(jump.code == Code::host_key);
    CHECK(jump.message == std::string("gpu1: not reached through its jump host: ssh says: ") + line);
    CHECK(jump.hint == own.hint);
  }

  TEST_CASE("behind a jump host the error says which hop failed, and why") {
    const std::string seen_from_here =
        "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port "
        "65535\r\n";
    struct Row {
      std::string words;
      Code code;
      std::string message;
    };
    for (const Row& row : {
             Row{"ssh: connect to host jump port 22: Connection refused\r\n" + seen_from_here,
                 Code::unreachable,
                 "gpu1: not reached, its jump host or ProxyCommand failed: 'ssh: connect to host jump port "
                 "22: "
                 "Connection refused'"},
             Row{"ssh: Could not resolve hostname jump: Name or service not known\r\n" + seen_from_here,
                 Code::unreachable,
                 "gpu1: not reached, its jump host or ProxyCommand failed: 'ssh: Could not resolve hostname "
                 "jump: "
                 "Name or service not known'"},
             Row{"me@jump: Permission denied (publickey).\r\n" + seen_from_here, Code::auth,
                 "gpu1: not reached, its jump host or ProxyCommand failed: 'me@jump: Permission denied "
                 "(publickey).'"},
             Row{"Host key verification failed.\r\n" + seen_from_here, Code::host_key,
                 "gpu1: not reached, its jump host or ProxyCommand failed: 'Host key verification failed.'"},
             Row{"kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by "
                 "10.0.0.1 port "
                 "22\r\n" +
                     seen_from_here,
                 Code::try_again,
                 "gpu1: not reached, its jump host or ProxyCommand failed: 'Connection reset by 10.0.0.1 "
                 "port 22'"},
             Row{"channel 0: open failed: connect failed: Connection refused\r\nstdio forwarding failed\r\n" +
                     seen_from_here,
                 Code::unreachable,
                 "gpu1: its jump host accepts us but cannot connect to it: 'connect failed: Connection "
                 "refused'"},
             Row{"channel 0: open failed: administratively prohibited: open failed\r\nstdio forwarding "
                 "failed\r\n" +
                     seen_from_here,
                 Code::unreachable,
                 "gpu1: its jump host accepts us but cannot connect to it: 'administratively prohibited: "
                 "open "
                 "failed'"},
             Row{"/bin/sh: 1: exec: nc: not found\nbanner exchange: Connection to UNKNOWN port 65535: Broken "
                 "pipe\n",
                 Code::unreachable,
                 "gpu1: not reached, its jump host or ProxyCommand failed: '/bin/sh: 1: exec: nc: not "
                 "found'"},
             Row{"No ED25519 host key is known for [gpu1]:2222 and you have requested strict "
                 "checking.\r\nHost key "
                 "verification failed.\r\n",
                 Code::host_key, "gpu1: its host key is not known"},
             Row{seen_from_here, Code::try_again,
                 "gpu1: its jump host or ProxyCommand ended the connection without a word"},
             Row{"me@gpu1: Permission denied (publickey).\r\n", Code::auth,
                 "gpu1: ssh says: 'me@gpu1: Permission denied (publickey).'"},
         }) {
      const auto error = explain_openssh(Host{"gpu1"}, row.words, "exited with code 255");
      CHECK(error.message == row.message);
      CHECK(error.code == row.code);
      CHECK_FALSE(error.hint.empty());
    }
  }

  TEST_CASE("OpenSSH's words on an unknown host key become a command, and a banner's do not") {
    const auto hint = [](const std::string& words) {
      return explain_openssh(Host{"gpu1"}, words + "\nHost key verification failed.\n", "exited").hint;
    };
    const std::string strict = " and you have requested strict checking.";
    CHECK(hint("No ED25519 host key is known for gpu1" + strict).find("-H -t ed25519 gpu1 >> ~/.ssh") !=
          std::string::npos);
    CHECK(hint("No RSA host key is known for [g]:2222" + strict).find("-H -p 2222 -t rsa g >> ~/.ssh") !=
          std::string::npos);
    for (const std::string evil :
         {"No ED25519 host key is known for $(halt)", "No `halt` host key is known for gpu1",
          "No ED25519 host key is known for [gpu1]:22;halt"})
      CHECK(hint(evil + strict).find("halt") == std::string::npos);
  }

  TEST_CASE("of a proxy the error tells what ssh_config says") {
    CHECK(describe_proxy("ssh -W '[%h]:%p' jump") == "a ProxyJump (jump)");
    CHECK(describe_proxy("ssh -l me -p 2222 -J one,two -W '[%h]:%p' three") == "a ProxyJump (three,one,two)");
    CHECK(describe_proxy("nc -X connect %h %p") == "a ProxyCommand ('nc -X connect %h %p')");
    CHECK(describe_proxy("ssh gate nc %h %p") == "a ProxyCommand ('ssh gate nc %h %p')");
  }

  TEST_CASE("what a host makes OpenSSH print does nothing to the terminal") {
    for (const std::string sign : {"", "Permission denied", "REMOTE HOST IDENTIFICATION HAS CHANGED!\n"}) {
      const auto error = explain_openssh(Host{"gpu1"},
                                         sign +
                                             "\x1b]0;x\x07\xc2\x9b"
                                             "2J",
                                         "exited with code 255");
      CHECK(error.message.find_first_of("\x1b\x07\x9b\n") == std::string::npos);
      CHECK(error.message.find("\\x1b]0;x\\x07") != std::string::npos);
    }
  }

  TEST_CASE("the host's own port, user and key come before the flags'") {
    Host host{"gpu1"};
    host.port = 7, host.user = "u", host.identity = "/k1";
    SshOptions options;
    options.port = 8, options.identity = "/k2", options.config_file = "/c";
    const auto words = openssh_arguments(host, options, "COMMAND");
    const auto after = [&](const std::string& flag) {
      const auto at = std::find(words.begin(), words.end(), flag);
      return at == words.end() || at + 1 == words.end() ? std::string("none") : *(at + 1);
    };
    CHECK(after("-p") == "7");
    CHECK(after("-i") == "/k1");
    CHECK(after("-l") == "u");
    CHECK(after("-F") == "/c");
    CHECK(std::vector(words.end() - 3, words.end()) == std::vector<std::string>{"--", "gpu1", "COMMAND"});
    CHECK(std::find(words.begin(), words.end(), "StrictHostKeyChecking=yes") != words.end());
    options.accept_new = true;
    const auto lenient = openssh_arguments(Host{"gpu1"}, options, "COMMAND");
    CHECK(std::find(lenient.begin(), lenient.end(), "StrictHostKeyChecking=accept-new") != lenient.end());
    CHECK(std::find(lenient.begin(), lenient.end(), "-l") == lenient.end());
  }

  TEST_CASE("the remote command is shown short") {
    Host host{"gpu1"};
    host.user = "u";
    SshOptions options;
    options.port = 2222;
    for (const auto kind : {TransportKind::automatic, TransportKind::ssh, TransportKind::openssh}) {
      const auto text = remote_command_for_display(host, options, kind);
      CHECK(text.starts_with("ssh "));
      CHECK(text.find("-p 2222") != std::string::npos);
      CHECK(text.find("/agent-") != std::string::npos);
      CHECK(text.size() < 500);
    }
  }
}

TEST_SUITE("own names") {
  TEST_CASE("this machine is known by what the system says of it") {
    CHECK(is_this_machine({.name = "localhost"}));
    CHECK_FALSE(is_this_machine({.name = "host-that-is-surely-another"}));
    CHECK_FALSE(is_this_machine({.name = "localhost", .port = 2222}));
    CHECK_FALSE(is_this_machine({.name = "localhost", .user = "nobody-of-this-name"}));
    const auto* me = ::getpwuid(::geteuid());
    if (me != nullptr) CHECK(is_this_machine({.name = "localhost", .user = me->pw_name}));
  }
}
