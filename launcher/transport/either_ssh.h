// --transport auto: libssh, and OpenSSH's client for the hosts whose ssh configuration asks for what libssh
// cannot do (ProxyJump, ProxyCommand, words that it cannot read or reads in another way).
#pragma once

#include <functional>
#include <memory>

#include "launcher/transport/transport.h"

namespace trainrun::transport {

class EitherSsh : public Transport {
 public:
  using Make = std::function<std::unique_ptr<Transport>()>;
  // `openssh` is called when the first host needs it.
  EitherSsh(std::unique_ptr<Transport> libssh, Make openssh);
  void dial(const Host& host, Duration within, DialDone done) override;

 private:
  void dial_openssh(const Host& host, const std::string& why, Duration within, DialDone done);

  std::unique_ptr<Transport> libssh_;
  const Make make_openssh_;
  std::unique_ptr<Transport> openssh_;
};

}  // namespace trainrun::transport
