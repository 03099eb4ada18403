// A worker that does one thing, as asked: what the end-to-end tests start. Static and without sanitizers, so
// that what is measured and killed is trainrun alone.
//
//   worker VERB [ARGUMENT...]            worker on RANK VERB ... -- VERB ...   (the second for all other
//   ranks)
//
// Every verb that waits says "ready" first.
#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "train.h"

extern char** environ;

namespace {

using Words = std::vector<std::string>;

void say(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(1, text.data() + done, text.size() - done);
    if (n < 0) _exit(99);
    done += static_cast<std::size_t>(n);
  }
}

std::string rank() {
  const char* value = getenv("RANK");
  return value != nullptr ? value : "?";
}

[[noreturn]] void wait_for_ever() {
  say("ready " + std::to_string(getpid()) + "\n");
  for (;;) pause();
}

// lines COUNT [LENGTH]: "RANK:NUMBER:xxx...", one write each.
int lines(const Words& words) {
  const long count = std::stol(words.at(1));
  const std::string fill(words.size() > 2 ? std::stoul(words[2]) : 0, 'x');
  for (long i = 0; i < count; ++i) say(rank() + ":" + std::to_string(i) + ":" + fill + "\n");
  return 0;
}

std::string unhex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// raw HEX...: those bytes on stdout, one write a word.
int raw(const Words& words) {
  for (std::size_t i = 1; i < words.size(); ++i) say(unhex(words[i]));
  return 0;
}

// err TEXT CODE: a line on stderr, then that exit code.
int err(const Words& words) {
  dprintf(2, "%s\n", words.at(1).c_str());
  return std::stoi(words.at(2));
}

int exit_with(const Words& words) { return std::stoi(words.at(1)); }

// die SIGNAL: by that signal's default action.
int die(const Words& words) {
  const int number = std::stoi(words.at(1));
  signal(number, SIG_DFL);
  raise(number);
  return 98;
}

int wait_verb(const Words& /*words*/) { wait_for_ever(); }

int burn(const Words& /*words*/) {
  say("ready\n");
  volatile std::uint64_t spins = 0;
  for (;;) spins = spins + 1;
}

// stubborn: everything that can be ignored is.
int stubborn(const Words& /*words*/) {
  for (int number = 1; number < 32; ++number) {
    if (number != SIGSTOP && number != SIGKILL && number != SIGCHLD) signal(number, SIG_IGN);
  }
  wait_for_ever();
}

void close_pipes() {
  for (const int fd : {0, 1, 2}) close(fd);
}

// daemon CODE|wait: leaves a double-forked daemon in a session of its own, that ignores TERM and holds no
// pipe.
int daemon_verb(const Words& words) {
  std::array<int, 2> done{};
  if (pipe(done.data()) != 0) return 97;
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      signal(SIGTERM, SIG_IGN);
      const std::string pid = std::to_string(getpid()) + "\n";
      if (write(done[1], pid.data(), pid.size()) < 0) _exit(97);
      close(done[0]);
      close(done[1]);
      close_pipes();
      for (;;) pause();
    }
    _exit(0);
  }
  close(done[1]);
  std::array<char, 32> pid{};
  const ssize_t n = read(done[0], pid.data(), pid.size());
  say("daemon " + std::string(pid.data(), n > 0 ? static_cast<std::size_t>(n) : 0));
  if (words.at(1) == "wait") wait_for_ever();
  return std::stoi(words[1]);
}

// holder CODE|wait: leaves a grandchild that holds stdin, stdout and stderr open for ever.
int holder(const Words& words) {
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      for (;;) pause();
    }
    _exit(0);
  }
  say("holding\n");
  if (words.at(1) == "wait") wait_for_ever();
  return std::stoi(words[1]);
}

// deaf: closes its pipes and goes on.
int deaf(const Words& /*words*/) {
  say("ready\n");
  close_pipes();
  for (;;) pause();
}

// memory: touches memory until somebody stops it.
int memory(const Words& /*words*/) {
  constexpr std::size_t step = std::size_t{1} << 20;
  for (;;) {
    void* block = std::malloc(step);
    if (block == nullptr) return 96;
    std::memset(block, 1, step);
  }
}

// checksum: counts stdin to its end; "bytes N crc32 X" as zlib counts.
int checksum(const Words& /*words*/) {
  std::uint32_t crc = 0xffffffffU;
  std::uint64_t count = 0;
  std::array<unsigned char, 65536> buffer{};
  for (;;) {
    const ssize_t n = read(0, buffer.data(), buffer.size());
    if (n < 0) return 95;
    if (n == 0) break;
    count += static_cast<std::uint64_t>(n);
    for (ssize_t i = 0; i < n; ++i) {
      crc ^= buffer[static_cast<std::size_t>(i)];
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ (0xedb88320U & (0U - (crc & 1U)));
    }
  }
  say("bytes " + std::to_string(count) + " crc32 " + std::to_string(crc ^ 0xffffffffU) + "\n");
  return 0;
}

// signals [CODE]: says "got NAME" of each; TERM ends it with CODE (default: by the signal's own way).
int signals(const Words& words) {
  const std::map<int, const char*> names = {{SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGCONT, "CONT"},
                                            {SIGTSTP, "TSTP"}, {SIGTERM, "TERM"}, {SIGINT, "INT"},
                                            {SIGHUP, "HUP"},   {SIGQUIT, "QUIT"}};
  sigset_t set;
  sigemptyset(&set);
  for (const auto& [number, name] : names) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  const int fd = signalfd(-1, &set, SFD_CLOEXEC);
  say("ready " + std::to_string(getpid()) + "\n");
  for (;;) {
    signalfd_siginfo info{};
    if (read(fd, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return 94;
    say(std::string("got ") + names.at(static_cast<int>(info.ssi_signo)) + "\n");
    if (info.ssi_signo == SIGTERM) {
      if (words.size() > 1) return std::stoi(words[1]);
      sigprocmask(SIG_UNBLOCK, &set, nullptr);
      signal(SIGTERM, SIG_DFL);
      raise(SIGTERM);
    }
  }
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {  // bytes as latin-1, so that any can be told
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

// env [WORD...]: what this worker was given, as one line of JSON.
int env(const Words& words) {
  std::string out = "{\"argv\":[";
  for (std::size_t i = 0; i < words.size(); ++i) out += (i != 0 ? "," : "") + quoted(words[i]);
  std::array<char, 4096> directory{};
  out +=
      "],\"cwd\":" + quoted(getcwd(directory.data(), directory.size()) != nullptr ? directory.data() : "?");
  out += ",\"fds\":[";
  bool first = true;
  for (int fd = 0; fd < 256; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) continue;
    out += (first ? "" : ",") + std::to_string(fd);
    first = false;
  }
  out += "],\"env\":{";
  first = true;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    out += (first ? "" : ",") + quoted(text.substr(0, equals)) + ":" + quoted(text.substr(equals + 1));
    first = false;
  }
  say(out + "}}\n");
  return 0;
}

// when FILE VERB ...: waits until the file is there.
int run(const Words& words);
int when(const Words& words) {
  say("waiting\n");
  struct stat status {};
  while (stat(words.at(1).c_str(), &status) != 0) usleep(5000);
  return run({words.begin() + 2, words.end()});
}

// on RANK VERB ... -- VERB ...
int on(const Words& words) {
  std::size_t split = 2;
  while (split < words.size() && words[split] != "--") ++split;
  const auto middle = words.begin() + static_cast<std::ptrdiff_t>(split);
  if (rank() == words.at(1)) return run({words.begin() + 2, middle});
  return run({middle + 1, words.end()});
}

// before GENERATION VERB ... then VERB ...: the first in generations below it.
int before(const Words& words) {
  std::size_t split = 2;
  while (split < words.size() && words[split] != "then") ++split;
  const auto middle = words.begin() + static_cast<std::ptrdiff_t>(split);
  const char* generation = getenv("TRAINRUN_GENERATION");
  if (generation != nullptr && std::stol(generation) < std::stol(words.at(1)))
    return run({words.begin() + 2, middle});
  return run({middle + 1, words.end()});
}

int run(const Words& words) {
  static const std::map<std::string, int (*)(const Words&)> verbs = {{"lines", lines},
                                                                     {"raw", raw},
                                                                     {"err", err},
                                                                     {"exit", exit_with},
                                                                     {"die", die},
                                                                     {"wait", wait_verb},
                                                                     {"burn", burn},
                                                                     {"stubborn", stubborn},
                                                                     {"daemon", daemon_verb},
                                                                     {"holder", holder},
                                                                     {"deaf", deaf},
                                                                     {"memory", memory},
                                                                     {"checksum", checksum},
                                                                     {"signals", signals},
                                                                     {"env", env},
                                                                     {"when", when},
                                                                     {"on", on},
                                                                     {"before", before},
                                                                     {"train", train},
                                                                     {"heir", heir}};
  const auto verb = verbs.find(words.empty() ? "" : words[0]);
  if (verb == verbs.end()) {
    dprintf(2, "worker: unknown verb '%s'\n", words.empty() ? "" : words[0].c_str());
    return 93;
  }
  return verb->second(words);
}

}  // namespace

int main(int argc, char** argv) { return run({argv + 1, argv + argc}); }
