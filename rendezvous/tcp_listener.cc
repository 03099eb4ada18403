#include "rendezvous/tcp_listener.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <map>
#include <utility>

#include "rendezvous/own_address.h"
#include "rendezvous/socket.h"

namespace trainrun::rendezvous {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr Duration accept_pause = milliseconds(100);  // after accept failed, e.g. for lack of descriptors

struct Peer {
  explicit Peer(asio::ip::tcp::socket the_socket) : socket(std::move(the_socket)) {}
  asio::ip::tcp::socket socket;
  std::array<char, 16384> input{};
  std::deque<std::string> queue;
  std::size_t queued = 0;
  bool paused = false;   // not read, until it has taken enough of what is queued for it
  bool closing = false;  // goes when the queue is empty
};

}  // namespace

struct TcpListener::State : std::enable_shared_from_this<State> {
  explicit State(io::Loop& loop) : acceptor(loop.context()), pause(loop) {}

  void accept() {
    acceptor.async_accept([self = weak_from_this()](const error_code& error, asio::ip::tcp::socket socket) {
      const auto state = self.lock();
      if (!state || !state->service || error == asio::error::operation_aborted) return;
      if (error) {
        state->pause.arm(io::Loop::now() + accept_pause, [self] {
          if (const auto later = self.lock(); later && later->acceptor.is_open()) later->accept();
        });
        return;
      }
      state->add(std::move(socket));
      state->accept();
    });
  }

  void add(asio::ip::tcp::socket socket) {
    error_code ignored;  // a connection without it is slower, not wrong
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const auto number = hooks.next_number();
    const auto peer = std::make_shared<Peer>(std::move(socket));
    peers.emplace(number, peer);
    service->opened(number, io::Loop::now());
    read(number, peer);
    hooks.touched();
  }

  void read(std::uint32_t number, const std::shared_ptr<Peer>& peer) {
    peer->socket.async_read_some(asio::buffer(peer->input), [self = weak_from_this(), number, peer](
                                                                const error_code& error, std::size_t size) {
      const auto state = self.lock();
      if (!state || !state->peers.contains(number) || peer->closing) return;
      if (error) {
        state->lose(number);
      } else {
        state->service->received(number, {peer->input.data(), size}, io::Loop::now());
        peer->paused = peer->queued >= Service::pause_above;
        if (!peer->closing && !peer->paused) state->read(number, peer);
      }
      state->hooks.touched();
    });
  }

  void write(std::uint32_t number, const std::shared_ptr<Peer>& peer) {
    asio::async_write(peer->socket, asio::buffer(peer->queue.front()),
                      [self = weak_from_this(), number, peer](const error_code& error, std::size_t) {
                        const auto state = self.lock();
                        if (!state || !state->peers.contains(number)) return;
                        if (error) {
                          state->lose(number);
                          state->hooks.touched();
                          return;
                        }
                        peer->queued -= peer->queue.front().size();
                        peer->queue.pop_front();
                        if (!peer->queue.empty())
                          state->write(number, peer);
                        else if (peer->closing)
                          return state->finish(number);
                        if (peer->paused) state->resume(number, peer);
                      });
  }

  // What the peer has asked meanwhile comes before what it will ask.
  void resume(std::uint32_t number, const std::shared_ptr<Peer>& peer) {
    if (peer->closing || !service || peer->queued >= Service::pause_above) return;
    service->drained(number, io::Loop::now());
    if (!peer->closing && peer->queued < Service::pause_above) {
      peer->paused = false;
      read(number, peer);
    }
    hooks.touched();
  }

  // The peer has gone: the service hears it, unless it closed the connection itself.
  void lose(std::uint32_t number) {
    const bool known = !peers.at(number)->closing;
    finish(number);
    if (known) service->closed(number, io::Loop::now());
  }

  void finish(std::uint32_t number) {
    const auto node = peers.extract(number);
    error_code ignored;
    node.mapped()->socket.close(ignored);
    if (node.mapped()->closing) hooks.touched();
  }

  asio::ip::tcp::acceptor acceptor;
  io::Timer pause;
  std::string address;
  Service* service = nullptr;
  Hooks hooks;
  std::map<std::uint32_t, std::shared_ptr<Peer>> peers;
};

TcpListener::TcpListener(std::shared_ptr<State> state) : state_(std::move(state)) {}

TcpListener::~TcpListener() {
  state_->service = nullptr;
  state_->peers.clear();
}

Result<std::unique_ptr<TcpListener>> TcpListener::listen(io::Loop& loop, const std::string& address) {
  const auto parts = split_address(address);
  if (!parts) return tl::unexpected(parts.error());
  auto state = std::make_shared<State>(loop);
  error_code error;
  const auto host = asio::ip::make_address(parts->first, error);
  if (error)
    return fail(Code::config,
                fmt::format("cannot listen on {}: the host must be a numeric address", address));
  const asio::ip::tcp::endpoint endpoint(host, parts->second);
  state->acceptor.open(endpoint.protocol(), error);
  if (!error) state->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) state->acceptor.bind(endpoint, error);
  if (!error) state->acceptor.listen(1024, error);
  const auto bound = error ? endpoint : state->acceptor.local_endpoint(error);
  if (error) return fail(Code::try_again, fmt::format("cannot listen on {}: {}", address, error.message()));
  const auto name = host.is_unspecified() ? own_address(host.is_v6()) : host.to_string();
  state->address = name.find(':') == std::string::npos ? fmt::format("{}:{}", name, bound.port())
                                                       : fmt::format("[{}]:{}", name, bound.port());
  return std::unique_ptr<TcpListener>(new TcpListener(std::move(state)));
}

void TcpListener::serve(Service& service, Hooks hooks) {
  state_->service = &service;
  state_->hooks = std::move(hooks);
  state_->accept();
}

void TcpListener::stop_accepting() {
  error_code ignored;
  state_->acceptor.close(ignored);
  state_->pause.disarm();
}

void TcpListener::send(std::uint32_t connection, std::string bytes) {
  const auto at = state_->peers.find(connection);
  if (at == state_->peers.end() || at->second->closing) return;
  const auto peer = at->second;
  peer->queued += bytes.size();
  peer->queue.push_back(std::move(bytes));
  if (peer->queue.size() == 1) state_->write(connection, peer);
}

void TcpListener::close(std::uint32_t connection) {
  const auto at = state_->peers.find(connection);
  if (at == state_->peers.end() || at->second->closing) return;
  at->second->closing = true;
  if (at->second->queue.empty()) state_->finish(connection);
}

std::size_t TcpListener::unsent(std::uint32_t connection) const {
  const auto at = state_->peers.find(connection);
  return at == state_->peers.end() ? 0 : at->second->queued;
}
const std::string& TcpListener::address() const { return state_->address; }
std::size_t TcpListener::connections() const { return state_->peers.size(); }

}  // namespace trainrun::rendezvous
