// Host lines of ssh_config that libssh reads in another way than ssh(1). Both look for the name that was
// given until a HostName is found; libssh (0.10) compares what follows with that one, ssh with the given one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace trainrun::transport {

// The text of a file that an Include names, as it stands there (with wildcards: of all that match); nothing
// if there is none.
using Included = std::function<std::string(std::string_view pattern)>;

// Reads one file after the other. Match blocks are passed over: they name what they are about. Pure but for
// `included`; not thread-safe.
class SshConfigLines {
 public:
  // `address`: what HostName has made of the name `given`.
  SshConfigLines(std::string given, std::string address, Included included)
      : given_(std::move(given)), address_(std::move(address)), included_(std::move(included)) {}

  // The first such line of the text ("Host gpu*"); nothing if both read it alike.
  std::optional<std::string> misread(std::string_view text);

 private:
  std::optional<std::string> misread(std::string_view text, int depth);

  std::string given_, address_;
  Included included_;
  bool renamed_ = false;  // an earlier line had a HostName
  int includes_ = 0;      // so far
};

}  // namespace trainrun::transport
