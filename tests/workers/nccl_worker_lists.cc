// Lists of tensors on a device. All values are exact in each of the types, so that what comes out is known.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "comm/halves.h"
#include "nccl_worker.h"

namespace {

using namespace trainrun::comm;

constexpr trc_dtype types[] = {TRC_F32, TRC_F16, TRC_BF16};

// Memory that is never given back, since a device may write to it when a call has failed.
struct Memory {
  Memory(trc_dtype of, std::size_t elements)
      : type(of), count(elements), data(new char[4 * elements + 4]()) {}

  void put(std::size_t i, float value) const {
    if (type == TRC_F32) return store(data, i, value);
    store(data, i, type == TRC_F16 ? f16_of_f32(value) : bf16_of_f32(value));
  }
  [[nodiscard]] float get(std::size_t i) const {
    if (type == TRC_F32) return load<float>(data, i);
    const auto half = load<std::uint16_t>(data, i);
    return type == TRC_F16 ? f32_of_f16(half) : f32_of_bf16(half);
  }

  trc_dtype type;
  std::size_t count;
  char* data;
};

std::vector<const Memory*>& kept() {
  static auto* const all = new std::vector<const Memory*>();
  return *all;
}
const Memory& memory(trc_dtype type, std::size_t count) {
  kept().push_back(new Memory(type, count));
  return *kept().back();
}

float value(int rank, std::size_t tensor, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 5 + tensor * 3 + i * 7) % 17) - 8;
}

struct Sums {
  trc_dtype wire;
  trc_op op;
  double before, after;

  [[nodiscard]] float of(int size, std::size_t tensor, std::size_t i) const {
    double result = 0;
    for (int rank = 0; rank < size; ++rank) {
      const auto one = before * value(rank, tensor, i);
      result = rank == 0       ? one
               : op == TRC_MAX ? std::max(result, one)
               : op == TRC_MIN ? std::min(result, one)
                               : result + one;
    }
    return static_cast<float>(after * (op == TRC_MEAN ? result / size : result));
  }
};

class List {
 public:
  // Each rank has its own types: they need not be the same.
  List(int rank, const std::vector<std::size_t>& counts, bool in_place) {
    for (std::size_t t = 0; t < counts.size(); ++t) {
      const auto type = types[(t + static_cast<std::size_t>(rank)) % 3];
      const auto& in = memory(type, counts[t]);
      const auto& out = in_place ? in : memory(type, counts[t]);
      for (std::size_t i = 0; i < counts[t]; ++i) in.put(i, value(rank, t, i));
      results_.push_back(&out);
      tensors_.push_back({in.data, out.data, counts[t], type});
    }
  }

  [[nodiscard]] trc_status reduce(trc_group* group, const Sums& sums) const {
    return trc_nccl_allreduce_list(group, tensors_.data(), tensors_.size(), sums.wire, sums.op, sums.before,
                                   sums.after);
  }
  [[nodiscard]] bool right(int size, const Sums& sums) const {
    for (std::size_t t = 0; t < results_.size(); ++t)
      for (std::size_t i = 0; i < results_[t]->count; ++i)
        if (results_[t]->get(i) != sums.of(size, t, i)) return false;
    return true;
  }

 private:
  std::vector<trc_nccl_tensor> tensors_;
  std::vector<const Memory*> results_;
};

// Odd sizes, nothing, more tensors than one launch takes, and one of many blocks.
std::vector<std::size_t> counts() {
  std::vector<std::size_t> all{0, 1, 2, 3, 1000, 0, 255, 4097, 7};
  for (std::size_t i = 0; i < 300; ++i) all.push_back(i % 5);
  return all;
}

int all_types(trc_group* group, int rank, int size) {
  for (const auto wire : types)
    for (const auto op : {TRC_SUM, TRC_MEAN, TRC_MIN, TRC_MAX})
      for (const auto& [before, after] : {std::pair{1.0, 1.0}, {0.5, 4.0}}) {
        const Sums sums{wire, op, before, after};
        const List list(rank, counts(), op == TRC_MEAN);
        if (list.reduce(group, sums) != TRC_OK || trc_barrier(group) != TRC_OK) return failed();
        if (!list.right(size, sums)) return wrong("list");
      }
  return 0;
}

// The buffer is one stream's at a time; several lists are enqueued before anybody waits.
int two_streams(trc_group* group, int rank, int size) {
  int other = 0;
  const Sums sums{TRC_F32, TRC_SUM, 1, 1};
  std::vector<List> lists;
  for (int i = 0; i < 8; ++i) {
    lists.emplace_back(rank, std::vector<std::size_t>{500 + static_cast<std::size_t>(i), 3}, false);
    if (trc_nccl_use_stream(group, i % 2 == 0 ? &other : nullptr) != TRC_OK) return failed();
    if (lists.back().reduce(group, sums) != TRC_OK) return failed();
  }
  if (trc_barrier(group) != TRC_OK) return failed();
  return std::all_of(lists.begin(), lists.end(), [&](const auto& list) { return list.right(size, sums); })
             ? 0
             : wrong("stream");
}

int factors(trc_group* group, int rank, int size) {
  const auto& data = memory(TRC_F16, 33);
  const Sums sums{TRC_F16, TRC_SUM, 0.5, 2};
  for (std::size_t i = 0; i < data.count; ++i) data.put(i, value(rank, 0, i));
  if (trc_allreduce_scaled(group, data.data, data.data, data.count, TRC_F16, TRC_SUM, 0.5, 2) != TRC_OK)
    return failed();
  if (trc_barrier(group) != TRC_OK) return failed();
  for (std::size_t i = 0; i < data.count; ++i)
    if (data.get(i) != sums.of(size, 0, i)) return wrong("factor");
  double f64 = 1;
  if (trc_allreduce_scaled(group, &f64, &f64, 1, TRC_F64, TRC_SUM, 2, 1) != TRC_UNSUPPORTED)
    return wrong("factor of f64");
  return 0;
}

int refusals(trc_group* group, trc_group* of_hosts) {
  const auto& data = memory(TRC_F32, 4);
  trc_nccl_tensor one{data.data, data.data, 4, TRC_F32};
  const auto sum = [&](trc_dtype wire, trc_op op, double before = 1) {
    return trc_nccl_allreduce_list(group, &one, 1, wire, op, before, 1);
  };
  if (trc_nccl_allreduce_list(group, nullptr, 0, TRC_F32, TRC_SUM, 1, 1) != TRC_OK)
    return wrong("empty list");
  if (trc_nccl_allreduce_list(group, nullptr, 1, TRC_F32, TRC_SUM, 1, 1) != TRC_INVALID)
    return wrong("no list");
  if (trc_nccl_allreduce_list(of_hosts, &one, 1, TRC_F32, TRC_SUM, 1, 1) != TRC_UNSUPPORTED)
    return wrong("hosts' group");
  if (sum(TRC_I32, TRC_SUM) != TRC_UNSUPPORTED || sum(TRC_F64, TRC_SUM) != TRC_UNSUPPORTED)
    return wrong("wire");
  if (sum(TRC_F32, TRC_BAND) != TRC_INVALID || sum(TRC_F32, TRC_SUM, HUGE_VAL) != TRC_INVALID)
    return wrong("operation");
  one.dtype = TRC_I64;
  if (sum(TRC_F32, TRC_SUM) != TRC_UNSUPPORTED) return wrong("type");
  one = {data.data + 1, data.data, 3, TRC_F32};
  if (sum(TRC_F32, TRC_SUM) != TRC_INVALID) return wrong("alignment");
  one = {data.data, nullptr, 4, TRC_F32};
  return sum(TRC_F32, TRC_SUM) == TRC_INVALID ? 0 : wrong("null buffer");
}

}  // namespace

int lists(trc_group* group, trc_group* of_hosts, int rank, int size) {
  int rc = all_types(group, rank, size);
  if (rc == 0) rc = refusals(group, of_hosts);
  if (rc == 0) rc = two_streams(group, rank, size);
  if (rc == 0) rc = factors(group, rank, size);
  if (rc == 0) say("all lists are right");
  return rc;
}

int one_list(trc_group* group) {
  const List list(0, {3000, 5, 100}, true);
  if (list.reduce(group, {TRC_BF16, TRC_MEAN, 1, 1}) != TRC_OK || trc_barrier(group) != TRC_OK)
    return failed();
  say("one list");
  return 0;
}
