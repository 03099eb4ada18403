#include "launcher/transport/bootstrap.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/transport/echo_image.h"
#include "tests/unit/transport/local_sshd.h"

using namespace trainrun;
using namespace trainrun::transport;
using testing::run_program;

namespace {

const std::string nonce(32, 'a');
const std::vector<std::string> shells{"/bin/dash", "/bin/bash", "/bin/busybox sh"};

std::string line_for(const std::string& shell, const std::string& directory, const AgentImage& image,
                     const std::vector<std::string>& places = {}) {
  auto line = bootstrap_line(image, nonce, directory, places, Bootstrap::careful).value();
  REQUIRE(line.starts_with("exec /bin/sh -c '"));
  return line.replace(5, 7, shell);
}

// What the host says when the launcher sends `input` at once.
std::string talk(const std::string& line, const std::string& input) {
  const auto ended = run_program({"/bin/sh", "-c", line}, input);
  INFO("stderr: ", ended.err);
  return ended.out;
}

std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename());
  return names;
}

// Skips are said, and are failures where everything is required.
bool there_is(const std::string& what, const std::vector<std::string>& probe) {
  if (run_program(probe).status == 0) return true;
  const char* require = getenv("TRAINRUN_REQUIRE");
  CHECK_MESSAGE((require == nullptr || std::string(require) != "all"), what << " is required");
  MESSAGE("skipped: no " << what);
  return false;
}

bool can_mount() {
  return there_is("right to mount", {"unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"});
}

}  // namespace

TEST_SUITE("bootstrap script") {
  TEST_CASE("an agent is uploaded once, and started from the cache after that") {
    for (const auto& shell : shells) {
      CAPTURE(shell);
      const testing::TempDir dir;
      const auto& image = testing::echo_image();
      const auto line = line_for(shell, dir / "made/for/it", image);
      CHECK(talk(line, std::string(image.bytes)) == nonce + " send\n" + nonce + " ready\n");
      CHECK(files_in(dir / "made/for/it") == std::vector{"agent-" + image.sha256});
      CHECK(talk(line, "hello") == nonce + " ready\nhello");
    }
  }

  TEST_CASE("an installed agent is preferred, and nothing is written then") {
    for (const auto& shell : shells) {
      const testing::TempDir dir;
      const auto& image = testing::echo_image();
      testing::write_file(dir / "installed", std::string(image.bytes), 0755);
      const auto line = line_for(shell, dir / "cache", image, {"/nonexistent/agent", dir / "installed"});
      CHECK(talk(line, "x") == nonce + " ready\nx");
      CHECK_FALSE(std::filesystem::exists(dir / "cache"));
    }
  }

  TEST_CASE("an agent that somebody else could have written is not run, wherever it lies") {
    const auto& image = testing::echo_image();
    struct Row {
      mode_t file, directory;
      uid_t file_owner, directory_owner;
    };
    const uid_t me = geteuid();
    std::vector<Row> rows = {
        {0775, 0755, me, me}, {0757, 0755, me, me}, {0755, 0775, me, me}, {0755, 0757, me, me}};
    if (me == 0) rows.insert(rows.end(), {{0755, 0755, 1, me}, {0755, 0755, me, 1}});
    for (const auto& shell : shells) {
      for (const auto& row : rows) {
        const testing::TempDir dir;
        const auto place = dir / "place/agent";
        std::filesystem::create_directory(dir / "place");
        testing::write_file(place, std::string(image.bytes), row.file);
        REQUIRE(chmod(place.c_str(), row.file) == 0);
        REQUIRE(chown(place.c_str(), row.file_owner, 0) == 0);
        REQUIRE(chmod((dir / "place").c_str(), row.directory) == 0);
        REQUIRE(chown((dir / "place").c_str(), row.directory_owner, 0) == 0);
        INFO(shell, " ", row.file, " ", row.directory, " ", row.file_owner, " ", row.directory_owner);
        CHECK(talk(line_for(shell, dir / "cache", image, {place}), std::string(image.bytes)) ==
              nonce + " send\n" + nonce + " ready\n");
      }
      const testing::TempDir dir;  // a link may be moved to point anywhere
      testing::write_file(dir / "real", std::string(image.bytes), 0755);
      std::filesystem::create_symlink(dir / "real", dir / "link");
      CHECK(talk(line_for(shell, dir / "cache", image, {dir / "link"}), std::string(image.bytes)) ==
            nonce + " send\n" + nonce + " ready\n");
    }
  }

  TEST_CASE("a cached agent that others can write to is replaced, never run") {
    const auto& image = testing::echo_image();
    for (const auto& shell : shells) {
      for (const mode_t mode : {0770, 0707}) {
        const testing::TempDir dir;
        const auto copy = dir / ("agent-" + image.sha256);
        testing::write_file(copy, std::string(image.bytes), 0700);
        REQUIRE(chmod(copy.c_str(), mode) == 0);
        CHECK(talk(line_for(shell, dir.path(), image), std::string(image.bytes)) ==
              nonce + " send\n" + nonce + " ready\n");
        struct stat status {};
        REQUIRE(stat(copy.c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0700);
      }
    }
  }

  TEST_CASE("an upload that breaks off or is damaged leaves nothing behind and is reported") {
    for (const auto& shell : shells) {
      CAPTURE(shell);
      const testing::TempDir dir;
      const auto& image = testing::echo_image();
      const auto line = line_for(shell, dir.path() + "/cache", image);
      CHECK(talk(line, std::string(image.bytes.substr(0, 1000))).find(" failed size 1000 of ") !=
            std::string::npos);
      CHECK(files_in(dir / "cache").empty());
      std::string damaged(image.bytes);
      damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
      CHECK(talk(line, damaged).find(" failed hash ") != std::string::npos);
      CHECK(files_in(dir / "cache").empty());
    }
  }

  TEST_CASE("a launcher that goes away before the upload leaves no temporary file") {
    for (const auto& shell : shells) {
      CAPTURE(shell);
      const testing::TempDir dir;
      const auto line = line_for(shell, dir / "cache", testing::echo_image());
      run_program({"/bin/bash", "-c", "set -o pipefail; eval \"($1)\" | true", "bash", line});
      CHECK(files_in(dir / "cache").empty());
    }
  }

  TEST_CASE("an empty or unexecutable file in the agent's place is replaced, never run") {
    for (const auto& shell : shells) {
      for (const int mode : {0600, 0700}) {
        const testing::TempDir dir;
        const auto& image = testing::echo_image();
        testing::write_file(dir / ("agent-" + image.sha256), mode == 0700 ? "" : "half", mode);
        CHECK(talk(line_for(shell, dir.path(), image), std::string(image.bytes)) ==
              nonce + " send\n" + nonce + " ready\n");
      }
    }
  }

  TEST_CASE("an agent that was cut short, or has other bytes, is replaced, never run") {
    const auto& image = testing::echo_image();
    std::string damaged(image.bytes);
    damaged[damaged.size() / 2] ^= 1;
    for (const auto& shell : shells)
      for (const auto& bytes : {damaged, damaged.substr(0, damaged.size() / 2)}) {
        CAPTURE(shell);
        const testing::TempDir dir;
        testing::write_file(dir / ("agent-" + image.sha256), bytes, 0700);
        CHECK(talk(line_for(shell, dir.path(), image), std::string(image.bytes)) ==
              nonce + " send\n" + nonce + " ready\n");
      }
  }

  TEST_CASE("an installed agent that cannot be executed is reported") {
    for (const auto& shell : shells) {
      CAPTURE(shell);
      const testing::TempDir dir;
      const auto& image = testing::echo_image();
      testing::write_file(dir / "agent", "#!/nonexistent/interpreter\n", 0700);
      CHECK(talk(line_for(shell, dir / "cache", image, {dir / "agent"}), {})
                .find(" failed exec cannot be executed: " + dir.path()) != std::string::npos);
    }
  }

  TEST_CASE("a directory that cannot be made, is another's, or is open to others is refused") {
    const auto& image = testing::echo_image();
    for (const auto& shell : shells) {
      CAPTURE(shell);
      CHECK(talk(line_for(shell, "/proc/none", image), {}).find(" failed directory mkdir") !=
            std::string::npos);
      const testing::TempDir dir;
      chmod(dir.path().c_str(), 0777);
      CHECK(talk(line_for(shell, dir.path(), image), {}).find(" failed open ") != std::string::npos);
      chmod(dir.path().c_str(), 0720);
      CHECK(talk(line_for(shell, dir.path(), image), {}).find(" failed open ") != std::string::npos);
      if (geteuid() != 0) continue;
      chmod(dir.path().c_str(), 0700);
      REQUIRE(chown(dir.path().c_str(), 1, 1) == 0);
      CHECK(talk(line_for(shell, dir.path(), image), {}).find(" failed owner ") != std::string::npos);
    }
  }

  TEST_CASE("another kind of machine is reported before anything is sent") {
    auto image = testing::echo_image();
    image.machine = "riscv128";
    const testing::TempDir dir;
    for (const auto& shell : shells) {
      CHECK(talk(line_for(shell, dir / "cache", image), {}).find(nonce + " failed machine ") == 0);
    }
  }

  TEST_CASE("a full disk and a noexec file system are reported, and nothing stays") {
    if (!can_mount()) return;
    const auto& image = testing::echo_image();
    for (const auto& shell : shells) {
      CAPTURE(shell);
      const auto on_mount = [&](const std::string& options) {
        const auto line = line_for(shell, "/mnt", image);
        return run_program(
            {"unshare", "-m", "/bin/sh", "-c",
             "mount -t tmpfs -o mode=700," + options + " none /mnt && (eval \"$1\"); ls -A /mnt >&2", "sh",
             line},
            std::string(image.bytes));
      };
      const auto full = on_mount("size=64k");
      CHECK(full.out.find(" failed write ") != std::string::npos);
      CHECK(full.out.find(shell.starts_with("/bin/busybox") ? "I/O error" : "No space left") !=
            std::string::npos);
      CHECK(full.err.find("agent") == std::string::npos);
      const auto noexec = on_mount("noexec").out;  // to busybox's test, a file is executable there
      const bool told = noexec.find(" failed noexec /mnt/agent-") != std::string::npos ||
                        noexec.find(" failed exec cannot be executed: /mnt/agent-") != std::string::npos;
      CHECK(told);
    }
  }

  TEST_CASE("the line means the same to every login shell") {
    const auto& image = testing::echo_image();
    for (const std::string shell : {"dash", "bash", "zsh", "fish", "tcsh"}) {
      if (!there_is(shell, {shell, "-c", "exit 0"})) continue;
      CAPTURE(shell);
      const testing::TempDir dir;
      const auto line = bootstrap_line(image, nonce, dir / "cache", {}, Bootstrap::careful).value();
      CHECK(run_program({shell, "-c", line}, std::string(image.bytes)).out ==
            nonce + " send\n" + nonce + " ready\n");
    }
  }

  // The copy is longer than the image: the script would replace it.
  TEST_CASE("quickly, every login shell becomes the agent that is there, and else goes on to the script") {
    const auto& image = testing::echo_image();
    const auto uploaded = nonce + " send\n" + nonce + " ready\n";
    for (const std::string shell : {"dash", "bash", "zsh", "fish", "tcsh"}) {
      if (!there_is(shell, {shell, "-c", "exit 0"})) continue;
      CAPTURE(shell);
      const testing::TempDir dir;
      const auto copy = dir / ".cache/trainrun/agent-" + image.sha256;
      const auto line = bootstrap_line(image, nonce, {}, {}, Bootstrap::quick).value();
      const auto ask = [&](const std::string& input) {
        return run_program({"env", "HOME=" + dir.path(), shell, "-c", line}, input).out;
      };
      CHECK(ask(std::string(image.bytes)) == uploaded);
      testing::write_file(copy, std::string(image.bytes) + "more", 0700);
      CHECK(ask("hello") == nonce + " ready\nhello");
      chmod(copy.c_str(), 0600);
      CHECK(ask(std::string(image.bytes)) == uploaded);
      const auto with_places =
          bootstrap_line(image, nonce, dir / "none", {"/nonexistent/agent", copy}, Bootstrap::quick).value();
      testing::write_file(copy, std::string(image.bytes) + "more", 0700);
      CHECK(run_program({shell, "-c", with_places}, "x").out == nonce + " ready\nx");
      CHECK_FALSE(std::filesystem::exists(dir / "none"));
      if (geteuid() != 0) continue;
      for (const auto& path : {copy, dir / ".cache/trainrun"}) {
        CAPTURE(path);
        testing::write_file(copy, std::string(image.bytes) + "more", 0700);
        REQUIRE(chown(path.c_str(), 1, 1) == 0);
        CHECK(ask(std::string(image.bytes)) != nonce + " ready\n" + std::string(image.bytes));
        REQUIRE(chown(path.c_str(), 0, 0) == 0);
      }
    }
  }

  TEST_CASE("quickly, without --agent-dir, the cache is looked for at home") {
    const auto& image = testing::echo_image();
    const testing::TempDir home;
    const auto line = bootstrap_line(image, nonce, {}, {}, Bootstrap::quick).value();
    const std::vector<std::string> at_home{"env", "HOME=" + home.path(), "bash", "-c", line};
    CHECK(run_program(at_home, std::string(image.bytes)).out == nonce + " send\n" + nonce + " ready\n");
    testing::write_file(home / ".cache/trainrun/agent-" + image.sha256, std::string(image.bytes) + "more",
                        0700);
    CHECK(run_program(at_home, "x").out == nonce + " ready\nx");
  }

  TEST_CASE("a directory with characters that a shell might read is refused") {
    for (const std::string bad : {"relative", "/a b", "/a;b", "/a'b", "/$x", "~user/x", "/a\nb", "/", "~"}) {
      CAPTURE(bad);
      const auto line = bootstrap_line(testing::echo_image(), nonce, bad, {}, Bootstrap::quick);
      REQUIRE_FALSE(line);
      CHECK(line.error().code == Code::usage);
    }
    const auto at_home = bootstrap_line(testing::echo_image(), nonce, "~/x", {}, Bootstrap::quick).value();
    CHECK(at_home.starts_with("test -x ~/x/agent-"));
    CHECK(at_home.find("d=$HOME/x;") != std::string::npos);
    // Elsewhere the mode is to be looked at, which takes the script.
    CHECK(bootstrap_line(testing::echo_image(), nonce, "/scratch/x", {}, Bootstrap::quick)
              .value()
              .starts_with("exec /bin/sh -c "));
  }
}

TEST_SUITE("bootstrap dialogue") {
  using Next = BootstrapDialogue::Next;

  TEST_CASE("the sentinels are found in noise, however the bytes are cut") {
    const std::string text =
        "motd\nno newline" + nonce + " send\n" + "late noise\n" + nonce + " ready\nFRAMES";
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      CAPTURE(cut);
      BootstrapDialogue dialogue(testing::echo_image(), nonce, "gpu1", Bootstrap::careful);
      std::vector<Next> seen;
      std::size_t used = 0;
      bool ready = false;
      for (const auto end : {cut, text.size()}) {
        while (used < end && !ready) {
          const auto step = dialogue.feed(std::string_view(text).substr(used, end - used));
          used += step.used;
          if (step.next != Next::need_more) seen.push_back(step.next);
          ready = step.next == Next::ready;
        }
      }
      CHECK(seen == std::vector{Next::send_image, Next::ready});
      CHECK(text.substr(used) == "FRAMES");
      CHECK(dialogue.noise() == "motd\nno newlinelate noise\n");
    }
  }

  TEST_CASE("the nonce in an echoed command line is noise") {
    BootstrapDialogue dialogue(testing::echo_image(), nonce, "gpu1", Bootstrap::careful);
    const auto line = bootstrap_line(testing::echo_image(), nonce, {}, {}, Bootstrap::quick).value() + "\n";
    CHECK(dialogue.feed(line).next == Next::need_more);
    CHECK(dialogue.feed("+ agent --greet " + nonce + " \n").next == Next::need_more);
    CHECK(dialogue.feed(nonce + " ready\n").next == Next::ready);
  }

  TEST_CASE("endless noise is refused, and little of it is kept") {
    BootstrapDialogue dialogue(testing::echo_image(), nonce, "gpu1", Bootstrap::careful);
    const std::string block(10'000, 'x');
    auto next = Next::need_more;
    for (int i = 0; i < 100 && next == Next::need_more; ++i)
      next = dialogue.feed(block + (i % 2 == 0 ? "\n" : "")).next;
    CHECK(next == Next::failed);
    CHECK(dialogue.error().code == Code::bootstrap);
    CHECK(dialogue.noise().size() <= 4096);
  }

  TEST_CASE("each failure names the host, the system's words and a cure") {
    struct Row {
      std::string report, message, hint;
    };
    for (const Row& row :
         {Row{"write head: error: No space left on device", "No space left on device", "--agent-dir"},
          Row{"noexec /home/u", "may not be executed", "noexec"},
          Row{"machine aarch64", "it is a 'aarch64' machine", "hosts of one kind"},
          Row{"directory mkdir: cannot create '/x': \x1b[1mNo",
              "written: mkdir: cannot create '/x': \\x1b[1mNo", "--agent-dir"},
          Row{"owner /x", "another user's", "--agent-dir"}, Row{"open /x", "other users", "chmod go-w"},
          Row{"exec cannot be executed: /x", "cannot be executed", "uname -m"},
          Row{"nonsense", "could not be started", ""}}) {
      CAPTURE(row.report);
      BootstrapDialogue dialogue(testing::echo_image(), nonce, "gpu1", Bootstrap::careful);
      CHECK(dialogue.feed(nonce + " failed " + row.report + "\n").next == Next::failed);
      CHECK(dialogue.error().message.starts_with("gpu1: "));
      CHECK(dialogue.error().message.find(row.message) != std::string::npos);
      CHECK(dialogue.error().hint.find(row.hint) != std::string::npos);
    }
  }

  TEST_CASE("an end before the greeting is explained by what the host said") {
    BootstrapDialogue dialogue(testing::echo_image(), nonce, "gpu1", Bootstrap::careful);
    dialogue.feed("This account is currently not available.\n");
    CHECK(dialogue.closed({}).message.find("currently not available") != std::string::npos);
    CHECK(dialogue.closed("sh: boom").message.find("sh: boom") != std::string::npos);
    CHECK(dialogue.closed({}).code == Code::bootstrap);
    const BootstrapDialogue quick(testing::echo_image(), nonce, "gpu1", Bootstrap::quick);
    CHECK(quick.closed({}).code == Code::try_again);
  }
}
