// TCP connections for a Service, on the one loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "launcher/base/error.h"
#include "launcher/io/loop.h"
#include "rendezvous/service.h"

namespace trainrun::rendezvous {

class TcpListener {
 public:
  // `address` is HOST:PORT with a numeric host; port 0 lets the system choose.
  static Result<std::unique_ptr<TcpListener>> listen(io::Loop& loop, const std::string& address);
  // Closes everything; no hook is called any more.
  ~TcpListener();

  struct Hooks {
    // A number for a new connection. Others may feed the same service, so the owner counts.
    std::function<std::uint32_t()> next_number;
    // After each event that was handed to the service: its next_deadline() may have changed.
    std::function<void()> touched;
  };
  // Begins to accept. The service outlives the listener or is told nothing after it is gone.
  void serve(Service& service, Hooks hooks);
  void stop_accepting();

  // For the service's callbacks.
  void send(std::uint32_t connection, std::string bytes);
  void close(std::uint32_t connection);
  [[nodiscard]] std::size_t unsent(std::uint32_t connection) const;

  // With the real port, and for all of this host's addresses (0.0.0.0, [::]) one that others reach.
  [[nodiscard]] const std::string& address() const;
  [[nodiscard]] std::size_t connections() const;

 private:
  struct State;
  explicit TcpListener(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace trainrun::rendezvous
