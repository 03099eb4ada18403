// trainrun_work for C++20: operations that go on while the program does something else, header only over
// trainrun_work.h, which says what they promise.
//
//   auto work = trainrun::comm::start(group, trainrun::comm::call_allreduce(std::span(gradients), Op::mean));
//   ...
//   work.wait();                                     // failures are exceptions, as of the calls that wait
#pragma once

#include "trainrun_comm.hpp"
#include "trainrun_work.h"

namespace trainrun::comm {

// Its end does not wait, and what it does goes on: so must its buffers.
class Work {
 public:
  explicit Work(trc_work* work) : work_(work, trc_work_free) {}
  [[nodiscard]] bool ended() const { return trc_work_ended(work_.get()) != 0; }
  void wait() const { detail::check(trc_work_wait(work_.get(), -1)); }
  // False: it goes on.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds within) const {
    auto status = trc_work_wait(work_.get(), within.count());
    if (status == TRC_TIMEOUT) {
      if (!ended()) return false;
      status = trc_work_wait(work_.get(), 0);  // it may have ended just after the wait
    }
    detail::check(status);
    return true;
  }
  [[nodiscard]] trc_work* handle() const { return work_.get(); }

 private:
  std::unique_ptr<trc_work, void (*)(trc_work*)> work_;
};

// Of any kind; the fields that it needs besides are set by hand.
inline trc_call call_of(trc_call_kind kind) {
  trc_call call{};
  call.struct_size = sizeof call;
  call.kind = kind;
  return call;
}

template <class T>
trc_call call_of(trc_call_kind kind, const T* in, T* out, std::size_t count, int root = 0) {
  auto call = call_of(kind);
  call.dtype = detail::dtype_of<T>();
  call.in = in;
  call.out = out;
  call.count = count;
  call.root = root;
  return call;
}

// In place.
template <class T>
trc_call call_allreduce(std::span<T> data, Op op = Op::sum) {
  auto call = call_of<T>(TRC_CALL_ALLREDUCE, data.data(), data.data(), data.size());
  call.op = static_cast<int>(op);
  return call;
}

inline Work start(const Group& group, std::span<const trc_call> calls, trc_completions* completions = nullptr,
                  std::uint64_t tag = 0) {
  trc_work* work = nullptr;
  detail::check(trc_start(group.handle(), calls.data(), calls.size(), completions, tag, &work));
  return Work(work);
}

inline Work start(const Group& group, const trc_call& call, trc_completions* completions = nullptr,
                  std::uint64_t tag = 0) {
  return start(group, std::span(&call, 1), completions, tag);
}

}  // namespace trainrun::comm
