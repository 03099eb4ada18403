#include "comm/backends/nccl/communicator.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "comm/backends/nccl/communicator_core.h"
#include "comm/quiet_threads.h"

namespace trainrun::comm::nccl {
namespace {

constexpr Duration farewell = seconds(1);

Instant now() { return std::chrono::steady_clock::now(); }

}  // namespace

Communicator::Communicator(const Library& library, const CudaDriver& cuda, Place place)
    : core_(std::make_shared<Core>(library, cuda, std::move(place))) {
  const QuietThreads quiet;
  thread_ = std::thread([core = core_] { core->run(); });
}

Moved Communicator::opened() {
  std::unique_lock lock(core_->mutex);
  core_->changed.wait_until(lock, core_->place.open_until + longest_pause,
                            [&] { return core_->machine.state() != Machine::State::opening; });
  core_->machine.look_at_time(now());  // the thread may be inside NCCL
  core_->changed.notify_all();
  if (core_->machine.state() == Machine::State::open) return {};
  const auto problem = core_->machine.problem();
  return tl::unexpected(Broken{problem ? problem->text : "the communicator is closed"});
}

Moved Communicator::enqueue(Job job, Stream stream, Deadline deadline) {
  Core::Request wish;
  wish.jobs.push_back(std::move(job));
  wish.stream = stream;
  return core_->submit(std::move(wish), deadline);
}

Moved Communicator::enqueue(const std::shared_ptr<const FusedList>& list, Deadline deadline) {
  const auto core = core_.get();
  Core::Request wish;
  wish.stream = list->stream;
  for (std::uint64_t number = 0; number < core->fusion.steps(*list); ++number)
    wish.jobs.emplace_back([core, list, number](const Functions& call, Handle handle) {
      return core->fusion.step(*list, number, call, handle);
    });
  return core_->submit(std::move(wish), deadline);
}

std::string Communicator::why_no_kernels() const {
  const std::lock_guard lock(core_->mutex);  // that of the thread, before it said that it is open
  return core_->fusion.why_no_kernels();
}

Moved Communicator::meet(Stream stream, Deadline deadline) {
  const auto core = core_.get();
  Core::Request wish;
  wish.jobs.emplace_back([core, stream](const Functions& call, Handle handle) {
    auto* const cell = reinterpret_cast<void*>(core->scratch);
    return call.all_reduce(cell, cell, 1, Type::u8, Reduce::max, handle, stream);
  });
  wish.stream = stream;
  wish.await = true;
  return core_->submit(std::move(wish), deadline);
}

Moved Communicator::wait(void* event, Deadline deadline) {
  // Mostly it has happened, and this thread need not ask the other one. What is cut short has its problem
  // before the event can happen.
  if (core_->cuda.event_query(event) == Cuda::success && !problem()) return {};
  Core::Request wish;
  wish.jobs.emplace_back([](const Functions&, Handle) { return Answer::success; });
  wish.await = true;
  wish.until = event;
  return core_->submit(std::move(wish), deadline);
}

void Communicator::abort() {
  const std::lock_guard lock(core_->mutex);
  core_->machine.abort(now());
  core_->changed.notify_all();
}

std::optional<Problem> Communicator::problem() const {
  const std::lock_guard lock(core_->mutex);
  return core_->machine.problem();
}

namespace {

// Those whose thread was not done when they were given up. Never destroyed: such a thread may outlive all
// else.
struct GivenUp {
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> cores;
};
GivenUp& given_up() {
  static auto* const all = new GivenUp();
  return *all;
}

}  // namespace

Communicator::~Communicator() {
  bool gone = false;
  {
    const std::lock_guard in_time(core_->telling);
    core_->tell_overdue = nullptr;
  }
  {
    std::unique_lock lock(core_->mutex);
    core_->machine.leave(now());
    core_->changed.notify_all();
    gone = core_->changed.wait_for(lock, farewell, [&] { return core_->gone; });
  }
  if (gone) {
    thread_.join();
    return;
  }
  thread_.detach();
  const std::lock_guard lock(given_up().mutex);
  given_up().cores.push_back(core_);
}

std::optional<std::string> settle() {
  const std::lock_guard lock(given_up().mutex);
  auto& all = given_up().cores;
  std::size_t stuck = 0;
  for (const auto& one : all) {
    auto& core = *static_cast<Communicator::Core*>(one.get());
    std::unique_lock its(core.mutex);
    while (!core.gone && !core.machine.stuck(now())) {
      core.changed.wait_until(its, core.machine.gone_until(), [&] { return core.gone; });
      core.machine.look_at_time(now());
    }
    if (!core.gone) ++stuck;
  }
  std::erase_if(all, [](const auto& one) {
    auto& core = *static_cast<Communicator::Core*>(one.get());
    const std::lock_guard its(core.mutex);
    return core.gone;
  });
  if (stuck == 0) return std::nullopt;
  return "NCCL has not let go of a communicator in its time: the device can be used again by a new process "
         "alone";
}

}  // namespace trainrun::comm::nccl
