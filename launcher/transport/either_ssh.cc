#include "launcher/transport/either_ssh.h"

#include <chrono>
#include <string>
#include <utility>

#include "launcher/transport/ssh_words.h"

namespace trainrun::transport {

EitherSsh::EitherSsh(std::unique_ptr<Transport> libssh, Make openssh)
    : libssh_(std::move(libssh)), make_openssh_(std::move(openssh)) {}

void EitherSsh::dial(const Host& host, Duration within, DialDone done) {
  const auto begun = std::chrono::steady_clock::now();
  libssh_->dial(host, within, [this, host, within, begun, done = std::move(done)](Result<Dialled> result) {
    if (result || !is_for_openssh(result.error())) return done(std::move(result));
    const auto left = within - std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun);
    dial_openssh(host, result.error().message, left, done);
  });
}

void EitherSsh::dial_openssh(const Host& host, const std::string& why, Duration within, DialDone done) {
  if (!openssh_) openssh_ = make_openssh_();
  openssh_->dial(host, within, [why, name = host.name, done = std::move(done)](Result<Dialled> result) {
    if (result) {
      result->how = why + ": reached by OpenSSH's ssh";
    } else {
      result.error().message += "; " + why.substr(name.size() + 2);  // its "NAME: " stands there already
    }
    done(std::move(result));
  });
}

}  // namespace trainrun::transport
