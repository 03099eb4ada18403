#include "comm/backends/nccl/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "comm/quiet_threads.h"
#include "launcher/base/strings.h"

namespace trainrun::comm::nccl {
namespace {

using Problem = Machine::Problem;
using Do = Machine::Do;

// Between two looks at what is under way. NCCL answers "in progress" to each operation, for microseconds.
constexpr Duration shortest_pause = std::chrono::microseconds(10), longest_pause = milliseconds(1);
// While something may run that nobody waits for: its failure is to be known soon.
constexpr Duration look_every = milliseconds(20);
constexpr Duration farewell = seconds(1);

Instant now() { return std::chrono::steady_clock::now(); }

const char* name_of(Do what) {
  switch (what) {
    case Do::start:
      return "ncclCommInitRankConfig";
    case Do::poll:
      return "ncclCommGetAsyncError";
    case Do::serve:
      return "an operation of NCCL";
    case Do::finalize:
      return "ncclCommFinalize";
    case Do::destroy:
      return "ncclCommDestroy";
    case Do::abort:
      return "ncclCommAbort";
    case Do::end:
      break;
  }
  return "NCCL";
}

}  // namespace

struct Communicator::Core {
  // Of the one caller that there is at a time.
  struct Request {
    Job job;
    bool await = false;  // until all on the stream is done
    Stream stream = nullptr;
    bool taken = false, done = false;
  };

  Core(const Library& nccl, const CudaDriver& driver, Place where)
      : call(nccl.call),
        cuda(driver),
        place(std::move(where)),
        fusion(driver, place.fusion_bytes),
        machine(place.open_until, place.abort_within) {}

  const Functions call;
  const CudaDriver& cuda;
  const Place place;
  Fusion fusion;  // the thread's own, but for what it says of kernels once the communicator is open
  mutable std::mutex mutex;
  std::condition_variable changed;
  Machine machine;
  std::optional<Request> request;
  bool gone = false;

  // The thread's own:
  Handle handle = nullptr;
  std::uint64_t scratch = 0;
  void* event = nullptr;
  int device = -1;
  bool retained = false;
  bool unwatched = false;  // something may run that nobody waits for
  Duration pause = shortest_pause;

  void run();
  void turn(std::unique_lock<std::mutex>& lock);
  void take_device();
  void give_device_back();
  Answer ask(Do what, Answer& heard);
  std::string text_of(Do what, Answer answer) const;
  void watch_stream(std::unique_lock<std::mutex>& lock);
  void rest(std::unique_lock<std::mutex>& lock);
  Moved submit(Request wish, Deadline deadline);
  void cuda_failed(const char* what, Cuda error, Problem::Kind kind) {
    machine.failed({kind, fmt::format("{}: {}", what, cuda.name(error))}, now());
  }
};

std::string Communicator::Core::text_of(Do what, Answer answer) const {
  if (answer == Answer::success || answer == Answer::in_progress) return {};
  const char* const error = call.get_error_string(answer);
  const char* const last = call.get_last_error(handle);
  auto text =
      fmt::format("{}: {} ({})", name_of(what), error == nullptr ? "?" : error, static_cast<int>(answer));
  if (last != nullptr && *last != '\0') text += fmt::format(": {}", last);
  return text;
}

// NCCL takes the device that is current in the thread that calls it.
void Communicator::Core::take_device() {
  void* context = nullptr;
  const char* what = "cuDeviceGet";
  auto answer = cuda.device_get(&device, place.device);
  if (answer == Cuda::success) {
    what = "cuDevicePrimaryCtxRetain";
    answer = cuda.retain_context(&context, device);
    retained = answer == Cuda::success;
  }
  if (answer == Cuda::success) {
    what = "cuCtxSetCurrent";
    answer = cuda.set_context(context);
  }
  if (answer == Cuda::success) {
    what = "cuMemAlloc";
    answer = cuda.allocate(&scratch, sizeof(double));
  }
  if (answer == Cuda::success) fusion.load_kernels();
  const std::lock_guard lock(mutex);
  if (answer != Cuda::success)
    cuda_failed(fmt::format("{} of device {}", what, place.device).c_str(), answer, Problem::Kind::library);
}

void Communicator::Core::give_device_back() {
  if (event != nullptr) cuda.event_destroy(event);
  fusion.release();
  if (scratch != 0) cuda.release(scratch);
  if (retained) cuda.release_context(device);
}

// `heard`: the answer that counts, which for a poll is not the call's own.
Answer Communicator::Core::ask(Do what, Answer& heard) {
  switch (what) {
    case Do::start: {
      auto ids = place.ids;
      Config config;
      heard = ids.size() > 1 && call.init_rank_scalable != nullptr
                  ? call.init_rank_scalable(&handle, place.size, place.rank, static_cast<int>(ids.size()),
                                            ids.data(), &config)
                  : call.init_rank_config(&handle, place.size, ids.front(), place.rank, &config);
      return heard;
    }
    case Do::poll: {
      const auto answer = call.get_async_error(handle, &heard);
      if (answer != Answer::success) heard = answer;
      return heard;
    }
    case Do::serve:
      return heard = request->job(call, handle);
    case Do::finalize:
      return heard = call.finalize(handle);
    case Do::destroy:
      return heard = call.destroy(std::exchange(handle, nullptr));
    case Do::abort:
      return heard = call.abort(std::exchange(handle, nullptr));
    case Do::end:
      break;
  }
  return heard = Answer::success;
}

// Longer each time, until something has happened.
void Communicator::Core::rest(std::unique_lock<std::mutex>& lock) {
  const auto state = machine.state();
  changed.wait_for(lock, pause, [&] { return machine.state() != state; });
  pause = std::min<Duration>(pause * 2, longest_pause);
}

// What was enqueued has been taken in; the caller waits until the stream has done it.
void Communicator::Core::watch_stream(std::unique_lock<std::mutex>& lock) {
  const auto stream = request->stream;
  lock.unlock();
  const char* what = "cuEventQuery";
  auto answer = Cuda::success;
  if (event == nullptr) {
    what = "cuEventCreate";
    answer = cuda.event_create(&event, without_timing);
    if (answer == Cuda::success) {
      what = "cuEventRecord";
      answer = cuda.event_record(event, stream);
    }
    if (answer == Cuda::success) answer = Cuda::not_ready;
  } else {
    answer = cuda.event_query(event);
  }
  auto heard = Answer::success;
  if (answer == Cuda::not_ready) ask(Do::poll, heard);
  const auto text = text_of(Do::poll, heard);
  lock.lock();
  if (answer == Cuda::success) {
    cuda.event_destroy(std::exchange(event, nullptr));
    unwatched = false;
    request->done = true;
  } else if (answer != Cuda::not_ready) {
    // What ran before has failed, and with it all that this process has on the device.
    cuda_failed(what, answer, Problem::Kind::context);
  } else {
    machine.answered(Do::poll, heard, text, now());
    rest(lock);
  }
}

void Communicator::Core::turn(std::unique_lock<std::mutex>& lock) {
  machine.look_at_time(now());
  auto what = machine.next(handle != nullptr);
  if (what == Do::end) return;
  if (what == Do::serve) {
    const auto called = [&] {
      return (request && !request->done) || machine.state() != Machine::State::open;
    };
    if (!called() && unwatched && !changed.wait_for(lock, look_every, called))
      what = Do::poll;
    else
      changed.wait(lock, called);
    if (what == Do::serve) {
      if (machine.state() != Machine::State::open) return;
      if (request->taken) {
        if (!request->await) {
          request->done = true;
        } else {
          pause = shortest_pause;
          while (machine.state() == Machine::State::open && !request->done) watch_stream(lock);
        }
        changed.notify_all();
        return;
      }
      request->taken = true;
      unwatched = true;
    }
  }
  lock.unlock();
  auto heard = Answer::success;
  ask(what, heard);
  const auto text = text_of(what, heard);
  lock.lock();
  if (what == Do::serve && fusion.problem())
    machine.failed(*fusion.problem(), now());
  else
    machine.answered(what, heard, text, now());
  changed.notify_all();
  if (heard == Answer::in_progress)
    rest(lock);
  else
    pause = shortest_pause;
}

void Communicator::Core::run() {
  take_device();
  std::unique_lock lock(mutex);
  while (machine.next(handle != nullptr) != Do::end) turn(lock);
  lock.unlock();
  give_device_back();
  lock.lock();
  gone = true;
  changed.notify_all();
}

Moved Communicator::Core::submit(Request wish, Deadline deadline) {
  std::unique_lock lock(mutex);
  const auto over = [&] { return machine.problem() || gone; };
  if (!over()) {
    request = std::move(wish);
    changed.notify_all();
    if (!changed.wait_until(lock, deadline, [&] { return over() || request->done; })) {
      machine.abort(now());
      changed.notify_all();
    }
    if (!over()) {
      request.reset();
      return {};
    }
  }
  return tl::unexpected(Broken{machine.problem() ? machine.problem()->text : "the communicator is closed"});
}

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

Moved Communicator::enqueue(Job job, Deadline deadline) {
  return core_->submit({std::move(job), false, nullptr, false, false}, deadline);
}

Moved Communicator::enqueue(const std::shared_ptr<const FusedList>& list, Deadline deadline) {
  const auto core = core_.get();
  const auto steps = core->fusion.steps(*list);
  for (std::uint64_t number = 0; number < steps; ++number) {
    const auto moved = enqueue(
        [core, list, number](const Functions& call, Handle handle) {
          return core->fusion.step(*list, number, call, handle);
        },
        deadline);
    if (!moved) return moved;
  }
  return {};
}

std::string Communicator::why_no_kernels() const {
  const std::lock_guard lock(core_->mutex);  // that of the thread, before it said that it is open
  return core_->fusion.why_no_kernels();
}

Moved Communicator::meet(Stream stream, Deadline deadline) {
  const auto core = core_.get();
  return core_->submit({[core, stream](const Functions& call, Handle handle) {
                          auto* const cell = reinterpret_cast<void*>(core->scratch);
                          return call.all_reduce(cell, cell, 1, Type::u8, Reduce::max, handle, stream);
                        },
                        true, stream, false, false},
                       deadline);
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
