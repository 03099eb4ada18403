// How an agent gets to run on a host with nothing of ours on it: one line of POSIX sh, and the talk with it.
// Pure text and a pure state machine; both ssh transports use them.
//
//   launcher                        host
//   bootstrap line  ------------->  the shell looks for agent-<sha256>: in the cache, or installed
//                   <-------------  "NONCE send\n"            only if it has none
//   exactly the image's bytes --->  temporary name, size and hash checked, renamed
//                   <-------------  "NONCE ready\n" + frames  by the agent itself (`agent --greet NONCE
//                   SIZE`)
//                   <-------------  "NONCE failed STAGE WORDS\n"  instead, when something is wrong
//
// Between the image and the agent's greeting the launcher sends nothing, so a reader on the host that reads
// ahead loses nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/transport/agent_image.h"

namespace trainrun::transport {

// quick: the login shell itself becomes the agent that it finds. A copy that does not even run, a shell that
// knows neither `test -O` nor `&&`: the session ends without a word, and the host is to be asked again,
// carefully, by the script alone. It replaces such a copy, or says what is wrong.
enum class Bootstrap { quick, careful };

// `nonce`: 32 hex digits, fresh for each dial. `agent_dir`: empty for ~/.cache/trainrun, else absolute or
// "~/...". `places`: absolute paths that may hold the very agent already. Fails on a path with characters
// that could mean something to some login shell.
Result<std::string> bootstrap_line(const AgentImage& image, std::string_view nonce,
                                   std::string_view agent_dir, const std::vector<std::string>& places,
                                   Bootstrap how);

class BootstrapDialogue {
 public:
  enum class Next {
    need_more,   // feed the bytes that come next
    send_image,  // send the image's bytes, all of them and nothing else, then feed on
    ready,       // the agent speaks: what follows the bytes used are frames
    failed,      // error() says why
  };
  struct Step {
    Next next = Next::need_more;
    std::size_t used = 0;  // how many of the bytes fed belong to the dialogue
  };

  BootstrapDialogue(const AgentImage& image, std::string nonce, std::string host, Bootstrap how);

  Step feed(std::string_view bytes);
  // The stream ended, or never got anywhere, before the agent spoke. `words`: what the host wrote to stderr.
  // Code::try_again after a quick line: the careful one comes next.
  [[nodiscard]] Error closed(std::string_view words) const;

  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] const std::string& noise() const { return noise_; }  // the first 4 KiB of it
  [[nodiscard]] bool image_sent() const { return image_asked_; }

 private:
  Step fail_with(Error error, std::size_t used);
  [[nodiscard]] Error explain(std::string_view report) const;

  std::string nonce_, host_, machine_;
  std::size_t size_;
  Bootstrap how_;
  std::string pending_;  // unfinished line: shell noise so far, or the beginning of a sentinel
  std::string noise_;
  std::size_t seen_ = 0;  // bytes fed, also those that were not kept
  bool image_asked_ = false;
  Error error_;
};

}  // namespace trainrun::transport
