#include "comm/backends/nccl/nccl_backend.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/backends/nccl/fusion_plan.h"
#include "comm/kernels.h"

namespace trainrun::comm::nccl {
namespace {

Type type_of(trc_dtype dtype) {
  switch (dtype) {
    case TRC_I8:
      return Type::i8;
    case TRC_I32:
      return Type::i32;
    case TRC_I64:
      return Type::i64;
    case TRC_F32:
      return Type::f32;
    case TRC_F64:
      return Type::f64;
    case TRC_F16:
      return Type::f16;
    case TRC_BF16:
      return Type::bf16;
    case TRC_U8:
    case TRC_BOOL:  // moved as it is
    case TRC_DTYPE_RANGE:
      break;
  }
  return Type::u8;
}

Reduce reduce_of(trc_op op) {
  switch (op) {
    case TRC_MEAN:
      return Reduce::avg;
    case TRC_MIN:
      return Reduce::min;
    case TRC_MAX:
      return Reduce::max;
    case TRC_PROD:
      return Reduce::prod;
    default:
      return Reduce::sum;
  }
}

// One operation, with all that it needs, since it may run when its caller has given up.
struct Operation {
  Descriptor what;
  const char* in;
  char* out;
  std::vector<std::uint64_t> counts;
  int rank, size;
  Stream stream;

  [[nodiscard]] std::size_t bytes(std::uint64_t count) const {
    return static_cast<std::size_t>(count) * size_of(what.dtype);
  }
  [[nodiscard]] const char* in_block(int other) const {
    return in + static_cast<std::size_t>(other) * bytes(what.count);
  }
  [[nodiscard]] char* out_block(int other) const {
    return out + static_cast<std::size_t>(other) * bytes(what.count);
  }

  Answer operator()(const Functions& call, Handle handle) const;
  Answer together(const Functions& call, Handle handle) const;
  Answer parts(const Functions& call, Handle handle) const;
};

// What NCCL has no call of its own for in all versions: sends and receives that it does at once.
Answer Operation::parts(const Functions& call, Handle handle) const {
  const auto type = type_of(what.dtype);
  const auto count = static_cast<std::size_t>(what.count);
  const bool root = rank == what.root;
  auto answer = Answer::success;
  const auto also = [&](Answer next) {
    if (answer == Answer::success || answer == Answer::in_progress)
      if (next != Answer::success) answer = next;
  };
  std::size_t before = 0, given = 0;
  for (int other = 0; other < size; ++other) {
    if (what.call == Call::alltoallv) {
      const auto gives = counts[static_cast<std::size_t>(other)];
      const auto gets = counts[static_cast<std::size_t>(size + other)];
      if (gives > 0) also(call.send(in + given, gives, type, other, handle, stream));
      if (gets > 0) also(call.recv(out + before, gets, type, other, handle, stream));
      given += bytes(gives);
      before += bytes(gets);
      continue;
    }
    if (what.call == Call::allgatherv) {
      const auto its = counts[static_cast<std::size_t>(other)];
      const void* const own = other == rank ? in : out + before;
      if (its > 0) also(call.broadcast(own, out + before, its, type, other, handle, stream));
      before += bytes(its);
      continue;
    }
    const bool gives =
        what.call == Call::alltoall || (what.call == Call::scatter ? root : other == what.root);
    const bool gets = what.call == Call::alltoall || (what.call == Call::scatter ? other == what.root : root);
    if (gives)
      also(call.send(what.call == Call::gather ? in : in_block(other), count, type, other, handle, stream));
    if (gets)
      also(
          call.recv(what.call == Call::scatter ? out : out_block(other), count, type, other, handle, stream));
  }
  return answer;
}

Answer Operation::together(const Functions& call, Handle handle) const {
  const auto begun = call.group_start();
  if (begun != Answer::success) return begun;
  const auto first = parts(call, handle);
  const auto ended = call.group_end();  // in any case, or the thread stays in the group
  return first == Answer::success || first == Answer::in_progress ? ended : first;
}

Answer Operation::operator()(const Functions& call, Handle handle) const {
  const auto type = type_of(what.dtype);
  const auto reduce = reduce_of(what.op);
  const auto count = static_cast<std::size_t>(what.count);
  switch (what.call) {
    case Call::allreduce:
      return call.all_reduce(in, out, count, type, reduce, handle, stream);
    case Call::reduce:
      return call.reduce(in, out, count, type, reduce, what.root, handle, stream);
    case Call::reduce_scatter:
      return call.reduce_scatter(in, out, count, type, reduce, handle, stream);
    case Call::broadcast:
      return call.broadcast(in, out, count, type, what.root, handle, stream);
    case Call::allgather:
      return call.all_gather(in, out, count, type, handle, stream);
    case Call::send:
      return in != nullptr ? call.send(in, count, type, what.root, handle, stream)
                           : call.recv(out, count, type, what.root, handle, stream);
    case Call::allgatherv:
    case Call::gather:
    case Call::scatter:
    case Call::alltoall:
    case Call::alltoallv:
      return together(call, handle);
    case Call::barrier:
    case Call::join:
    case Call::finalize:
    case Call::alltoallv_plan:
    case Call::settle:
      break;
  }
  return Answer::invalid_usage;
}

bool reduces(Call call) {
  return call == Call::allreduce || call == Call::reduce || call == Call::reduce_scatter;
}

bool scales(const Descriptor& what) { return what.before != 1 || what.after != 1; }

}  // namespace

NcclBackend::NcclBackend(const Library& library, const CudaDriver& cuda, Communicator::Place place,
                         Stream stream, Duration time_limit)
    : rank_(place.rank),
      size_(place.size),
      time_limit_(time_limit),
      stream_(stream),
      communicator_(library, cuda, std::move(place)) {}

const char* NcclBackend::refuses(const Descriptor& what) const {
  if (what.call == Call::join) return "not on a device";
  if (!reduces(what.call)) return nullptr;
  if (what.dtype == TRC_BOOL) return "there is no reduction of bool on a device; try u8";
  if (what.op == TRC_BAND || what.op == TRC_BOR || what.op == TRC_BXOR)
    return "there is no bitwise reduction on a device";
  if (what.op == TRC_MEAN && !is_floating(what.dtype)) return "there is no mean of integers on a device";
  if (!scales(what)) return nullptr;
  if (!element_of(what.dtype)) return "on a device there are factors of f16, bf16 and f32 alone";
  return refuses_lists();  // the kernels that scale are the same
}

const char* NcclBackend::refuses_lists() const {
  return why_no_kernels_.empty() ? nullptr : why_no_kernels_.c_str();
}

Moved NcclBackend::opened() {
  auto opened = communicator_.opened();
  if (opened) why_no_kernels_ = communicator_.why_no_kernels();
  return opened;
}

bool NcclBackend::use_stream(void* stream) {
  stream_ = stream;
  return true;
}

Moved NcclBackend::reduce(const Descriptor& what, std::vector<Tensor> tensors, Deadline until) {
  const auto count = padded_count(tensors);
  FusedList list{std::move(tensors),
                 count,
                 what.dtype,
                 type_of(what.dtype),
                 reduce_of(what.op),
                 static_cast<float>(what.before),
                 static_cast<float>(what.after),
                 stream_};
  return communicator_.enqueue(std::make_shared<const FusedList>(std::move(list)), until);
}

Performed NcclBackend::perform(const Descriptor& what, const Transfer& data, Deadline deadline) {
  const auto until = std::min(deadline, std::chrono::steady_clock::now() + time_limit_);
  auto moved = Moved();
  if (what.call == Call::barrier)
    moved = communicator_.meet(stream_, until);
  else if (what.call == Call::settle)
    moved = communicator_.wait(data.event, until);
  else if (what.count > 0 && !data.tensors.empty())
    moved = reduce(what, {data.tensors.begin(), data.tensors.end()}, until);
  else if (what.count > 0 && scales(what))
    moved = reduce(what, {{data.in, data.out, what.count, what.dtype}}, until);
  else if (what.count > 0)
    moved = communicator_.enqueue(Operation{what,
                                            static_cast<const char*>(data.in),
                                            static_cast<char*>(data.out),
                                            {data.counts.begin(), data.counts.end()},
                                            rank_,
                                            size_,
                                            stream_},
                                  stream_, until);
  if (!moved) return tl::unexpected(moved.error());
  return std::nullopt;
}

}  // namespace trainrun::comm::nccl
