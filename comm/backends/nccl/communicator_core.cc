#include "comm/backends/nccl/communicator_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainrun::comm::nccl {
namespace {

// Between two looks at what is under way. NCCL answers "in progress" to each operation, for microseconds.
constexpr Duration shortest_pause = std::chrono::microseconds(10);
// While something may run that nobody waits for: its failure is to be known soon.
constexpr Duration look_every = milliseconds(20);

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

std::string Communicator::Core::text_of(Do what, Answer answer) const {
  if (answer == Answer::success || answer == Answer::in_progress) return {};
  const char* const error = call.get_error_string(answer);
  const char* const last = call.get_last_error(handle);
  auto text =
      fmt::format("{}: {} ({})", name_of(what), error == nullptr ? "?" : error, static_cast<int>(answer));
  if (last != nullptr && *last != '\0') text += fmt::format(": {}", last);
  return text;
}

void Communicator::Core::cuda_failed(const char* what, Cuda error, Problem::Kind kind) {
  machine.failed({kind, fmt::format("{}: {}", what, cuda.name(error))}, now());
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
  overdue.release();
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
      return heard = request->jobs[request->at](call, handle);
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

// Longer each time, until something has happened: by an eighth, so that what is waited for is found late by
// an eighth of what it took.
void Communicator::Core::rest(std::unique_lock<std::mutex>& lock) {
  const auto state = machine.state();
  changed.wait_for(lock, pause, [&] { return machine.state() != state; });
  pause = std::min<Duration>(pause * 9 / 8, longest_pause);
}

// What was enqueued has been taken in; the caller waits until the stream has done it.
void Communicator::Core::watch_stream(std::unique_lock<std::mutex>& lock) {
  const auto stream = request->stream;
  void* const given = request->until;
  looking = true;
  lock.unlock();
  const char* what = "cuEventQuery";
  auto answer = Cuda::success;
  if (given == nullptr && event == nullptr) {
    what = "cuEventCreate";
    answer = cuda.event_create(&event, without_timing);
    if (answer == Cuda::success) {
      what = "cuEventRecord";
      answer = cuda.event_record(event, stream);
    }
    if (answer == Cuda::success) answer = Cuda::not_ready;
  } else {
    answer = cuda.event_query(given == nullptr ? event : given);
  }
  auto heard = Answer::success;
  if (answer == Cuda::not_ready) ask(Do::poll, heard);
  const auto text = text_of(Do::poll, heard);
  lock.lock();
  looking = false;
  changed.notify_all();
  if (answer == Cuda::success) {
    if (given == nullptr) {
      cuda.event_destroy(std::exchange(event, nullptr));
      unwatched = false;
    }
    request->done = true;
  } else if (answer != Cuda::not_ready) {
    // What ran before has failed, and with it all that this process has on the device.
    cuda_failed(what, answer, Problem::Kind::context);
  } else {
    machine.answered(Do::poll, heard, text, now());
    rest(lock);
  }
}

void Communicator::Core::look_for_overdue(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const auto late = !told_overdue && overdue.look(now());
  bool told = false;
  if (late) {
    const std::lock_guard in_time(telling);
    told = told_overdue = tell_overdue != nullptr;
    if (told) tell_overdue();
  }
  lock.lock();
  if (late && !told) machine.failed({Problem::Kind::late, "the device has not done it in its time"}, now());
}

void Communicator::Core::turn(std::unique_lock<std::mutex>& lock) {
  machine.look_at_time(now());
  auto what = machine.next(handle != nullptr);
  if (what == Do::end) return;
  if (what == Do::serve) {
    const auto called = [&] {
      return (request && !request->done) || machine.state() != Machine::State::open;
    };
    if (!called() && unwatched && !changed.wait_for(lock, look_every, called)) {
      what = Do::poll;
      look_for_overdue(lock);
    } else {
      changed.wait(lock, called);
    }
    if (what == Do::serve) {
      if (machine.state() != Machine::State::open) return;
      if (request->taken && request->at + 1 < request->jobs.size()) {
        ++request->at;
        request->taken = false;
        return;
      }
      if (request->taken) {
        if (!request->await) {
          const auto stream = request->stream;
          lock.unlock();
          overdue.enqueued(stream, now());  // before the caller may let go of it
          lock.lock();
          if (request) request->done = true;
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
  // Of a program that captures a graph meanwhile: queries of another thread would break that.
  int relaxed = 2;
  if (cuda.exchange_capture_mode != nullptr) cuda.exchange_capture_mode(&relaxed);
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
    // The caller may destroy its event as soon as this returns.
    changed.wait_for(lock, look_every, [&] { return !looking; });
  }
  return tl::unexpected(Broken{machine.problem() ? machine.problem()->text : "the communicator is closed"});
}

}  // namespace trainrun::comm::nccl
