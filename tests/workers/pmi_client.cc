// A rank that speaks PMI-1 on the descriptor that PMI_FD names, and nothing else of MPI: what MPI_Init and
// MPI_Finalize say to a launcher, without their cost, stopped where a test wants it.
//
//   meet [ROUNDS]          put, barrier, get the neighbour's, in rounds; finalize
//   first-without RANK     all but RANK wait in the first barrier; it says "ready PID" and does nothing
//   last-without RANK      as meet, but RANK does nothing before the last barrier, in which the others wait
//   leave RANK             as first-without, but RANK exits with 0 when it reads a line
//   desert RANK            RANK says init and exits with 0; the others meet without it
//   ask LINE               one line to the launcher after init; its answer is printed
//
// Who waits says "waiting PID" first. A barrier that fails is told ("failed: ANSWER"), and ends it with 9.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

int fd = -1;
std::string mine, size;

void say(const std::string& text) {
  if (write(1, text.data(), text.size()) < 0) _exit(99);
}

std::string read_line(int from) {
  std::string line;
  for (char c = 0; read(from, &c, 1) == 1;) {
    if (c == '\n') return line;
    line += c;
  }
  return "<hung up>";
}

void send(const std::string& line) {
  const auto whole = line + "\n";
  if (write(fd, whole.data(), whole.size()) < 0) _exit(98);
}

std::string ask(const std::string& line) {
  send(line);
  return read_line(fd);
}

// Launchers may say more than they must, or leave out a `rc=0`.
void expect(const std::string& line, const std::string& command, const std::string& word = {}) {
  const auto heard = ask(line);
  const auto has = [&heard](const std::string& text) { return heard.find(text) != std::string::npos; };
  if (heard.find("cmd=" + command) == 0 && !has("rc=-1") && has(word)) return;
  say("asked '" + line + "', heard '" + heard + "'\n");
  _exit(7);
}

void barrier(bool tell) {
  send("cmd=barrier_in");
  if (tell) say("waiting " + std::to_string(getpid()) + "\n");
  const auto heard = read_line(fd);
  if (heard.find("cmd=barrier_out") == 0 && heard.find("rc=-1") == std::string::npos) return;
  say("failed: " + heard + "\n");
  _exit(9);
}

[[noreturn]] void stay() {
  say("ready " + std::to_string(getpid()) + "\n");
  for (;;) pause();
}

void init() { expect("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", "rc=0"); }

std::string name() {
  const auto answer = ask("cmd=get_my_kvsname");
  return answer.substr(answer.find("kvsname="));
}

void meet(int rounds) {
  const auto space = name();
  const auto next = std::to_string((std::stoi(mine) + 1) % std::stoi(size));
  for (int round = 0; round < rounds; ++round) {
    const auto key = "-" + std::to_string(round) + "-";
    expect("cmd=put " + space + " key=" + key + mine + " value=of" + mine, "put_result");
    barrier(false);
    expect("cmd=get " + space + " key=" + key + next, "get_result", "value=of" + next);
  }
}

void finalize() { expect("cmd=finalize", "finalize_ack"); }

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "meet", word = argc > 2 ? argv[2] : "";
  const char* number = std::getenv("PMI_FD");
  if (number == nullptr) {
    say("no PMI\n");
    return 5;
  }
  fd = std::atoi(number);
  mine = std::getenv("PMI_RANK");
  size = std::getenv("PMI_SIZE");
  const bool chosen = word == mine;
  if (chosen && verb == "first-without") stay();
  if (chosen && verb == "leave") {
    say("ready " + std::to_string(getpid()) + "\n");
    read_line(0);
    return 0;
  }
  init();
  if (verb == "ask") {
    say(ask(word) + "\n");
  } else if (verb == "desert") {
    if (chosen) return 0;
    barrier(true);
  } else if (verb == "first-without" || verb == "leave") {
    barrier(true);
  } else if (verb == "last-without") {
    meet(1);
    if (chosen) stay();
    barrier(true);
  } else {
    meet(word.empty() ? 1 : std::stoi(word));
    barrier(false);
  }
  finalize();
  return 0;
}
