#include "launcher/transport/local.h"

#include "launcher/agent/agent_main.h"

namespace trainrun::transport {
namespace {

class LocalTransport final : public Transport {
 public:
  explicit LocalTransport(io::Loop& loop) : loop_(loop) {}

  void dial(const Host&, Duration, DialDone done) override {
    auto dialled = fork_one();
    loop_.post([alive = std::weak_ptr(alive_), done = std::move(done),
                result = std::make_shared<Result<Dialled>>(std::move(dialled))] {
      if (alive.lock()) done(std::move(*result));
    });
  }

 private:
  static Result<Dialled> fork_one() {
    auto ends = make_socket_pair();
    if (!ends) return tl::unexpected(ends.error());
    const auto pid = agent::fork_agent(std::move(ends->second));
    if (!pid) return tl::unexpected(pid.error());
    return Dialled{std::move(ends->first), {}};
  }

  io::Loop& loop_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace

std::unique_ptr<Transport> make_local_transport(io::Loop& loop) {
  return std::make_unique<LocalTransport>(loop);
}

}  // namespace trainrun::transport
