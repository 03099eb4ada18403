#include "launcher/horovod_notifier.h"

#include <chrono>
#include <memory>

#include "launcher/base/error.h"

namespace trainrun {
namespace {

StreamId stream_of(std::uint32_t attempt) {
  return {wire::OpenStream::first_of_launcher + attempt % wire::OpenStream::first_of_launcher};
}

std::uint32_t attempt_of(StreamId stream) { return stream.value - wire::OpenStream::first_of_launcher; }

std::int64_t wall_clock() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

}  // namespace

HorovodNotifier::HorovodNotifier(io::Loop& loop, Out out)
    : out_(std::move(out)),
      notices_({[this](std::uint32_t attempt, WorkerId worker, rendezvous::HorovodEndpoint to,
                       const std::string& bytes) {
                  const auto host = homes_.at(worker);
                  attempts_[attempt] = host;
                  out_.open(host, {stream_of(attempt), to.address, to.port});
                  out_.send(host, stream_of(attempt), bytes, false);
                },
                [this](std::uint32_t attempt) {
                  const auto it = attempts_.find(attempt);
                  if (it == attempts_.end()) return;
                  out_.send(it->second, stream_of(attempt), {}, true);
                  attempts_.erase(it);
                },
                [this](WorkerId worker, const std::string& why) { out_.failed(worker, why); }}),
      timer_(loop) {}

void HorovodNotifier::begin(const std::vector<std::pair<WorkerId, HostIndex>>& world) {
  std::vector<WorkerId> workers;
  for (const auto& [worker, host] : world) workers.push_back(worker);
  notices_.begin(workers);
  homes_ = {world.begin(), world.end()};
  arm();
}

void HorovodNotifier::listens(WorkerId worker, const std::string& value) {
  auto service = rendezvous::read_horovod_service(value);
  if (!service) return out_.failed(worker, "its address is " + service.error().message);
  notices_.registered(worker, std::move(*service), io::Loop::now());
  arm();
}

void HorovodNotifier::announce(bool hosts_leave) {
  notices_.announce(hosts_leave, wall_clock(), io::Loop::now());
  arm();
}

void HorovodNotifier::interrupted() {
  notices_.interrupted();
  arm();
}

void HorovodNotifier::received(HostIndex host, StreamId stream, const std::string& bytes, bool end) {
  const auto it = attempts_.find(attempt_of(stream));
  if (it == attempts_.end() || it->second != host) return;
  notices_.received(it->first, bytes, end, io::Loop::now());
  arm();
}

void HorovodNotifier::refused(HostIndex host, const wire::StreamRefused& answer) {
  const auto it = attempts_.find(attempt_of(answer.stream));
  if (it == attempts_.end() || it->second != host) return;
  notices_.refused(it->first, errno_text(answer.error), io::Loop::now());
  arm();
}

// Its ranks are lost, which ends the world: until then nothing more is sent there.
void HorovodNotifier::host_gone(HostIndex host) {
  std::erase_if(attempts_, [host](const auto& it) { return it.second == host; });
}

void HorovodNotifier::arm() {
  const auto next = notices_.next_deadline();
  if (!next) return timer_.disarm();
  timer_.arm(*next, [this] {
    notices_.advance(io::Loop::now());
    arm();
  });
}

}  // namespace trainrun
