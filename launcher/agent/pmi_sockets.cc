#include "launcher/agent/pmi_sockets.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <map>
#include <utility>

#include "launcher/agent/pmi_world.h"

namespace trainrun::agent {

using boost::asio::posix::stream_descriptor;

namespace {
// What a rank that has ended may have said last, and nobody has read yet; a socket holds less.
constexpr int most_last_reads = 64;
}  // namespace

struct PmiSockets::Connection : std::enable_shared_from_this<Connection> {
  Connection(State& owner, boost::asio::io_context& context, WorkerId id)
      : state(owner), socket(context), worker(id) {}
  void wait();
  [[nodiscard]] bool read();  // true: there may be more
  void give(std::string_view bytes);
  void write();
  void close();

  State& state;
  stream_descriptor socket;
  WorkerId worker;
  std::string pending;
  bool hang_up = false;  // once all is written
};

struct PmiSockets::State {
  State(io::Loop& given, io::FrameStream& to) : loop(given), link(to) {}
  void perform(PmiWorld::Effects effects);
  void perform(PmiWorld::Reply& reply);
  void perform(PmiWorld::HangUp& order);
  void perform(PmiWorld::Abort& abort);
  void perform(PmiWorld::Tell& tell);
  void perform(wire::Gather& part);

  io::Loop& loop;
  io::FrameStream& link;
  std::string job_id;
  Generation generation{};
  std::optional<PmiWorld> world;
  std::map<WorkerId, std::shared_ptr<Connection>> connections;
};

// ---- one socket. A client waits for its answer before it says more, so nothing is read while some is
// unsent.

void PmiSockets::Connection::wait() {
  socket.async_wait(stream_descriptor::wait_read,
                    [weak = weak_from_this()](const boost::system::error_code& error) {
                      const auto self = weak.lock();
                      if (!self || error || !self->socket.is_open()) return;
                      static_cast<void>(self->read());
                      if (self->socket.is_open() && self->pending.empty()) self->wait();
                    });
}

bool PmiSockets::Connection::read() {
  if (!socket.is_open()) return false;
  char buffer[16384];
  const ssize_t n = ::read(socket.native_handle(), buffer, sizeof buffer);
  if (n > 0) {
    if (state.world) state.perform(state.world->received(worker, {buffer, static_cast<std::size_t>(n)}));
    return true;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  close();  // the program has closed it; whether it was to do so its end will tell
  return false;
}

void PmiSockets::Connection::give(std::string_view bytes) {
  const bool writing = !pending.empty();
  pending += bytes;
  if (!writing) write();
}

void PmiSockets::Connection::write() {
  while (!pending.empty() && socket.is_open()) {
    const ssize_t n = ::send(socket.native_handle(), pending.data(), pending.size(), MSG_NOSIGNAL);
    if (n > 0) {
      pending.erase(0, static_cast<std::size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      return socket.async_wait(stream_descriptor::wait_write,
                               [weak = weak_from_this()](const boost::system::error_code& error) {
                                 const auto self = weak.lock();
                                 if (!self || error) return;
                                 self->write();
                                 if (self->socket.is_open() && self->pending.empty()) self->wait();
                               });
    } else if (n >= 0 || errno != EINTR) {
      return close();
    }
  }
  if (hang_up) close();
}

void PmiSockets::Connection::close() {
  boost::system::error_code ignored;
  socket.close(ignored);
  pending.clear();
}

// ---- what the world wants

void PmiSockets::State::perform(PmiWorld::Effects effects) {
  for (auto& effect : effects) std::visit([this](auto& it) { perform(it); }, effect);
}

void PmiSockets::State::perform(PmiWorld::Reply& reply) {
  if (const auto it = connections.find(reply.worker); it != connections.end()) it->second->give(reply.bytes);
}

void PmiSockets::State::perform(PmiWorld::HangUp& order) {
  const auto it = connections.find(order.worker);
  if (it == connections.end()) return;
  it->second->hang_up = true;
  if (it->second->pending.empty()) it->second->close();
}

void PmiSockets::State::perform(PmiWorld::Abort& abort) {
  link.send(wire::Aborted{abort.worker, abort.code, io::Loop::now().time_since_epoch().count()});
}

void PmiSockets::State::perform(PmiWorld::Tell& tell) { link.send(wire::Note{tell.text}); }

void PmiSockets::State::perform(wire::Gather& part) { link.send(part); }

// ---- what the agent says

PmiSockets::PmiSockets(io::Loop& loop, io::FrameStream& link) : state_(std::make_unique<State>(loop, link)) {}
PmiSockets::~PmiSockets() = default;

void PmiSockets::setup(std::string job_id) { state_->job_id = std::move(job_id); }

void PmiSockets::begin(const wire::Start& order, Fd socket) {
  if (!state_->world || order.generation > state_->generation) {
    state_->connections.clear();
    state_->generation = order.generation;
    state_->world.emplace(state_->job_id, order.generation);
  }
  if (order.generation != state_->generation) return;
  state_->world->add(order.worker, order.place);
  set_nonblocking(socket.get(), true);
  const auto connection = std::make_shared<Connection>(*state_, state_->loop.context(), order.worker);
  connection->socket.assign(socket.release());
  state_->connections.emplace(order.worker, connection);
  connection->wait();
}

bool PmiSockets::ended_in_mpi(WorkerId worker) {
  const auto it = state_->connections.find(worker);
  if (it == state_->connections.end()) return false;
  const auto connection = it->second;
  // Its end may be known before its last words are read.
  for (int i = 0; i < most_last_reads && connection->read(); ++i) {
  }
  return state_->world && state_->world->in_mpi(worker);
}

bool PmiSockets::has_spoken(WorkerId worker) const {
  return state_->world && state_->world->has_spoken(worker);
}

void PmiSockets::left(WorkerId worker) {
  const auto it = state_->connections.find(worker);
  if (it == state_->connections.end()) return;
  it->second->close();
  state_->connections.erase(it);
  if (state_->world) state_->perform(state_->world->left(worker));
}

void PmiSockets::gathered(const wire::Gathered& message) {
  if (state_->world && message.generation == state_->generation)
    state_->perform(state_->world->gathered(message));
}

void PmiSockets::failed(const wire::GatherFailed& message) {
  if (state_->world && message.generation == state_->generation)
    state_->perform(state_->world->failed(message.reason));
}

void PmiSockets::asked(const wire::Ask& question) {
  if (state_->world && question.generation == state_->generation)
    return state_->link.send(state_->world->answer(question));
  state_->link.send(wire::Answer{question.generation, question.question, false, {}});
}

}  // namespace trainrun::agent
