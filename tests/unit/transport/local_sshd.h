// A real sshd on loopback with throw-away keys, its files in a directory of its own; gone with the object.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trainrun::testing {

// A directory that is removed with all it holds.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Ended {
  int status = -1;  // exit code, or 128 + signal
  std::string out, err;
};
// Runs a program with `input` on its stdin to its end (at most a minute).
Ended run_program(const std::vector<std::string>& argv, const std::string& input = {});
void write_file(const std::string& path, const std::string& text, int mode = 0600);
std::string read_text(const std::string& path);
std::uint16_t free_port();

class LocalSshd {
 public:
  explicit LocalSshd(const std::string& more_config = {});
  ~LocalSshd();
  LocalSshd(const LocalSshd&) = delete;
  LocalSshd& operator=(const LocalSshd&) = delete;

  static bool possible();  // is an sshd installed, and may this user start one?

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string key() const { return dir_ / "id"; }              // accepted
  [[nodiscard]] std::string other_key() const { return dir_ / "stranger"; }  // not accepted
  [[nodiscard]] std::string known_hosts() const { return dir_ / "known_hosts"; }
  [[nodiscard]] std::string ssh_config() const { return dir_ / "ssh_config"; }  // for --ssh-config
  [[nodiscard]] std::string cache() const { return dir_ / "cache"; }            // its XDG_CACHE_HOME
  [[nodiscard]] std::string log() const { return read_text(dir_ / "sshd.log"); }
  [[nodiscard]] const TempDir& dir() const { return dir_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void trust();        // writes its true key to known_hosts
  void trust_wrong();  // another key

 private:
  TempDir dir_;
  std::uint16_t port_;
  pid_t pid_ = -1;
};

}  // namespace trainrun::testing
