// Every operation on every type, over every backend, among one to eight ranks, against a reference in double;
// all values are whole numbers that each type holds, so nothing may be off by a bit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/unit/comm/backends/ranks.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

// Small enough that a product over eight ranks fits in a signed byte.
double value(int rank, std::size_t i) {
  return static_cast<double>(1 + (static_cast<std::size_t>(rank) * 5 + i) % 7 / 5);
}

double expected(trc_op op, int size, std::size_t i) {
  double result = value(0, i);
  for (int rank = 1; rank < size; ++rank) {
    const double next = value(rank, i);
    if (op == TRC_SUM || op == TRC_MEAN) result += next;
    if (op == TRC_MIN) result = std::min(result, next);
    if (op == TRC_MAX) result = std::max(result, next);
    if (op == TRC_PROD) result *= next;
  }
  return op == TRC_MEAN ? result / size : result;
}

// `count` elements of any type in memory that begins `offset` bytes after an aligned address.
class Buffer {
 public:
  Buffer(trc_dtype dtype, std::size_t count, std::size_t offset)
      : dtype_(dtype), count_(count), offset_(offset), bytes_(offset + count * size_of(dtype) + 1, guard) {}
  [[nodiscard]] void* data() { return bytes_.data() + offset_; }
  void set(std::size_t i, double to) {
    with_type([&](auto zero) { put(i, static_cast<decltype(zero)>(to)); });
  }
  [[nodiscard]] double get(std::size_t i) const {
    double got = 0;
    with_type([&](auto element) {
      std::memcpy(&element, bytes_.data() + offset_ + i * sizeof element, sizeof element);
      got = static_cast<double>(element);
    });
    return got;
  }
  // Whether what lies around it is as it was.
  [[nodiscard]] bool intact() const {
    return bytes_.back() == guard && (offset_ == 0 || bytes_[offset_ - 1] == guard);
  }

 private:
  static constexpr char guard = 'g';
  template <class Work>
  void with_type(Work work) const {
    if (dtype_ == TRC_U8) work(std::uint8_t{});
    if (dtype_ == TRC_I8) work(std::int8_t{});
    if (dtype_ == TRC_I32) work(std::int32_t{});
    if (dtype_ == TRC_I64) work(std::int64_t{});
    if (dtype_ == TRC_F32) work(float{});
    if (dtype_ == TRC_F64) work(double{});
  }
  template <class T>
  void put(std::size_t i, T element) {
    std::memcpy(bytes_.data() + offset_ + i * sizeof element, &element, sizeof element);
  }
  trc_dtype dtype_;
  std::size_t count_, offset_;
  std::vector<char> bytes_;
};

// A mean of whole numbers is cut in an integer type, and rounded once in float.
double as_stored(trc_dtype dtype, double number) {
  if (dtype == TRC_F64) return number;
  return dtype == TRC_F32 ? static_cast<double>(static_cast<float>(number)) : std::trunc(number);
}

Outcome<void> check(bool good, const char* what, trc_dtype dtype, std::size_t count, int detail) {
  if (good) return {};
  return comm::fail(TRC_INTERNAL, fmt::format("wrong {} of {} {} ({})", what, count, name_of(dtype), detail));
}

Outcome<void> try_all(Group& group, int rank, int size, trc_dtype dtype, std::size_t count,
                      std::size_t offset) {
  Buffer in(dtype, count, offset), out(dtype, count, offset);
  for (std::size_t i = 0; i < count; ++i) in.set(i, value(rank, i));
  for (const auto op : {TRC_SUM, TRC_MEAN, TRC_MIN, TRC_MAX, TRC_PROD}) {
    if (auto done = group.allreduce(in.data(), out.data(), count, dtype, op); !done) return done;
    bool good = in.intact() && out.intact();
    for (std::size_t i = 0; i < count; ++i)
      good = good && out.get(i) == as_stored(dtype, expected(op, size, i)) && in.get(i) == value(rank, i);
    if (auto right = check(good, "allreduce", dtype, count, op); !right) return right;
  }
  Buffer in_place = in;
  if (auto done = group.allreduce(in_place.data(), in_place.data(), count, dtype, TRC_SUM); !done)
    return done;
  bool good = in_place.intact();
  for (std::size_t i = 0; i < count; ++i) good = good && in_place.get(i) == expected(TRC_SUM, size, i);
  if (auto right = check(good, "allreduce in place", dtype, count, 0); !right) return right;

  for (int root = 0; root < size; ++root) {
    Buffer data = in;
    if (auto done = group.broadcast(data.data(), count, dtype, root); !done) return done;
    good = data.intact();
    for (std::size_t i = 0; i < count; ++i) good = good && data.get(i) == value(root, i);
    if (auto right = check(good, "broadcast", dtype, count, root); !right) return right;
  }

  Buffer all(dtype, count * static_cast<std::size_t>(size), offset);
  if (auto done = group.allgather(in.data(), all.data(), count, dtype); !done) return done;
  good = all.intact();
  for (int other = 0; other < size; ++other)
    for (std::size_t i = 0; i < count; ++i)
      good = good && all.get(static_cast<std::size_t>(other) * count + i) == value(other, i);
  if (auto right = check(good, "allgather", dtype, count, 0); !right) return right;
  return group.barrier();
}

constexpr trc_dtype types[] = {TRC_U8, TRC_I8, TRC_I32, TRC_I64, TRC_F32, TRC_F64};

}  // namespace

TEST_CASE("every operation on every type over every backend gives the reference's values") {
  for (const std::string backend : {"shm", "gloo"})
    for (std::uint32_t size = 1; size <= 8; ++size) {
      CAPTURE(backend);
      CAPTURE(size);
      Ranks ranks(backends_named(backend, size));
      ranks.all_do([&](Group& group, int rank) -> Outcome<void> {
        for (const auto dtype : types)
          for (const std::size_t count : {0, 1, 7, 1001})
            for (const std::size_t offset : {0, 1})
              if (auto done = try_all(group, rank, ranks.size(), dtype, count, offset); !done) return done;
        return {};
      });
    }
}

TEST_CASE("operations that take many steps give the same, at every edge of a piece") {
  // Elements of eight bytes: around one piece, two, three, and such that the parts of the ranks are uneven.
  constexpr std::size_t piece = shm_piece / sizeof(double);
  for (const std::uint32_t size : {2, 3, 8}) {
    CAPTURE(size);
    Ranks ranks(shm_backends(size));
    ranks.all_do([&](Group& group, int rank) -> Outcome<void> {
      for (const std::size_t count : {piece - 1, piece, piece + 1, 2 * piece, 3 * piece + 13})
        if (auto done = try_all(group, rank, ranks.size(), TRC_F64, count, 1); !done) return done;
      return try_all(group, rank, ranks.size(), TRC_U8, 3 * shm_piece + 5, 3);
    });
  }
}
