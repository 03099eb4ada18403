// Every operation on every type, over every backend, among one to eight ranks, against a reference in double;
// all values are whole numbers that each type holds, so nothing may be off by a bit.
#include <fmt/format.h>

#include <algorithm>

#include "comm/backends/gloo/gloo_agreement.h"
#include "tests/unit/comm/backends/ranks.h"
#include "tests/unit/comm/backends/typed_buffer.h"
#include "tests/unit/comm/only_races.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

// Small enough that a product over eight ranks fits in a signed byte; not the same for all elements of a
// rank.
double value(trc_dtype dtype, int rank, std::size_t i) {
  const auto mixed = (static_cast<std::size_t>(rank) * 5 + i) % 7;
  return dtype == TRC_BOOL ? static_cast<double>(mixed % 2) : static_cast<double>(1 + mixed / 5);
}

double expected(trc_dtype dtype, trc_op op, int size, std::size_t i) {
  std::vector<double> values;
  for (int rank = 0; rank < size; ++rank) values.push_back(value(dtype, rank, i));
  return reference(dtype, op, values);
}

// One rank's view: what it gives, and whether what it got is right.
class Trial {
 public:
  Trial(Group& group, trc_dtype dtype, std::size_t count, std::size_t offset)
      : group_(group),
        dtype_(dtype),
        count_(count),
        offset_(offset),
        own_(buffer(count)),
        all_(buffer(count * size())) {
    for (std::size_t i = 0; i < count; ++i) own_.set(i, value(dtype, group.rank(), i));
    // For another rank goes what this rank would give as if it were longer.
    for (std::size_t i = 0; i < count * size(); ++i) all_.set(i, value(dtype, group.rank(), i));
  }

  Outcome<void> reductions(trc_op op) {
    if (!can_reduce(dtype_, op)) return {};
    auto out = buffer(count_), in_place = own_;
    if (auto done = group_.allreduce(own_.data(), out.data(), count_, dtype_, op); !done) return done;
    if (auto done = group_.allreduce(in_place.data(), in_place.data(), count_, dtype_, op); !done)
      return done;
    const auto reduced = [&](std::size_t i) { return expected(dtype_, op, group_.size(), i); };
    if (auto good = check(out, reduced, "allreduce", op); !good) return good;
    if (auto good = check(in_place, reduced, "allreduce in place", op); !good) return good;

    const int root = static_cast<int>(op) % group_.size();
    auto at_root = buffer(count_);
    const bool gets = group_.rank() == root;
    if (auto done = group_.reduce(own_.data(), gets ? at_root.data() : nullptr, count_, dtype_, op, root);
        !done)
      return done;
    if (gets)
      if (auto good = check(at_root, reduced, "reduce", op); !good) return good;

    auto part = buffer(count_), blocks = all_;
    if (auto done = group_.reduce_scatter(all_.data(), part.data(), count_, dtype_, op); !done) return done;
    if (auto done = group_.reduce_scatter(blocks.data(), blocks.data(own_block()), count_, dtype_, op); !done)
      return done;
    const auto share = [&](std::size_t i) { return reduced(own_block() + i); };
    if (auto good = check(part, share, "reduce_scatter", op); !good) return good;
    return check(blocks, share, "reduce_scatter in place", op, own_block(), count_);
  }

  Outcome<void> from_root(int root) {
    auto data = own_;
    if (auto done = group_.broadcast(data.data(), count_, dtype_, root); !done) return done;
    if (auto good = check(
            data, [&](std::size_t i) { return value(dtype_, root, i); }, "broadcast", root);
        !good)
      return good;
    auto part = buffer(count_), blocks = all_;
    const bool is_root = group_.rank() == root;
    if (auto done = group_.scatter(is_root ? all_.data() : nullptr, part.data(), count_, dtype_, root); !done)
      return done;
    const auto share = [&](std::size_t i) { return value(dtype_, root, own_block() + i); };
    if (auto good = check(part, share, "scatter", root); !good) return good;
    if (auto done = group_.scatter(blocks.data(), is_root ? blocks.data(own_block()) : part.data(), count_,
                                   dtype_, root);
        !done)
      return done;
    if (auto good = check(part, share, "scatter in place", root); !good) return good;

    auto gathered = buffer(count_ * size());
    if (auto done = group_.gather(own_.data(), is_root ? gathered.data() : nullptr, count_, dtype_, root);
        !done)
      return done;
    return is_root ? check(gathered, from_all(), "gather", root) : Outcome<void>();
  }

  Outcome<void> to_all() {
    auto gathered = buffer(count_ * size()), in_place = buffer(count_ * size());
    if (auto done = group_.allgather(own_.data(), gathered.data(), count_, dtype_); !done) return done;
    if (auto good = check(gathered, from_all(), "allgather", 0); !good) return good;
    for (std::size_t i = 0; i < count_; ++i) in_place.set(own_block() + i, own_.get(i));
    if (auto done = group_.allgather(in_place.data(own_block()), in_place.data(), count_, dtype_); !done)
      return done;
    if (auto good = check(in_place, from_all(), "allgather in place", 0); !good) return good;

    auto exchanged = buffer(count_ * size()), own_too = all_;
    if (auto done = group_.alltoall(all_.data(), exchanged.data(), count_, dtype_); !done) return done;
    if (auto done = group_.alltoall(own_too.data(), own_too.data(), count_, dtype_); !done) return done;
    const auto block_for_me = [&](std::size_t i) {
      return count_ == 0 ? 0 : value(dtype_, static_cast<int>(i / count_), own_block() + i % count_);
    };
    if (auto good = check(exchanged, block_for_me, "alltoall", 0); !good) return good;
    return check(own_too, block_for_me, "alltoall in place", 0);
  }

  // Blocks of different lengths, some of them empty.
  Outcome<void> uneven() {
    std::vector<std::uint64_t> counts, given, got;
    std::size_t total = 0;
    for (std::size_t rank = 0; rank < size(); ++rank)
      counts.push_back(count_ * ((rank + 1) % 3)), total += counts.back();
    auto in = buffer(counts[me()]), out = buffer(total);
    for (std::size_t i = 0; i < counts[me()]; ++i) in.set(i, value(dtype_, group_.rank(), i));
    if (auto done = group_.allgatherv(in.data(), out.data(), counts.data(), dtype_); !done) return done;
    const auto where = [](const std::vector<std::uint64_t>& lengths, std::size_t i) {
      std::size_t rank = 0;
      for (; i >= lengths[rank]; ++rank) i -= lengths[rank];
      return std::pair(static_cast<int>(rank), i);
    };
    const auto of_rank = [&](std::size_t i) {
      const auto [rank, at] = where(counts, i);
      return value(dtype_, rank, at);
    };
    if (auto good = check(out, of_rank, "allgatherv", 0, 0, total); !good) return good;

    const auto length = [&](std::size_t from, std::size_t to) { return count_ * ((from + 2 * to) % 3); };
    std::size_t gives = 0, gets = 0;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      given.push_back(length(me(), rank)), gives += given.back();
      got.push_back(length(rank, me())), gets += got.back();
    }
    auto sent = buffer(gives), received = buffer(gets);
    for (std::size_t i = 0; i < gives; ++i) {
      const auto [rank, at] = where(given, i);
      sent.set(i, value(dtype_, group_.rank() + rank, at));
    }
    if (auto done = group_.alltoallv(sent.data(), given.data(), received.data(), got.data(), dtype_); !done)
      return done;
    const auto for_me = [&](std::size_t i) {
      const auto [rank, at] = where(got, i);
      return value(dtype_, rank + group_.rank(), at);
    };
    return check(received, for_me, "alltoallv", 0, 0, gets);
  }

  Outcome<void> untouched() {
    for (std::size_t i = 0; i < count_; ++i)
      if (own_.get(i) != value(dtype_, group_.rank(), i)) return wrong("input", 0);
    for (std::size_t i = 0; i < count_ * size(); ++i)
      if (all_.get(i) != value(dtype_, group_.rank(), i)) return wrong("input", 1);
    return {};
  }

 private:
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(group_.size()); }
  [[nodiscard]] std::size_t me() const { return static_cast<std::size_t>(group_.rank()); }
  [[nodiscard]] std::size_t own_block() const { return me() * count_; }
  [[nodiscard]] TypedBuffer buffer(std::size_t count) const { return {dtype_, count, offset_}; }
  [[nodiscard]] std::function<double(std::size_t)> from_all() const {
    return [this](std::size_t i) {
      return count_ == 0 ? 0 : value(dtype_, static_cast<int>(i / count_), i % count_);
    };
  }
  [[nodiscard]] Outcome<void> wrong(const char* what, int detail) const {
    return comm::fail(TRC_INTERNAL,
                      fmt::format("wrong {} of {} {} ({})", what, count_, name_of(dtype_), detail));
  }
  template <class Expected>
  Outcome<void> check(TypedBuffer& got, Expected right, const char* what, int detail) const {
    const bool blocks = std::string_view(what).find("gather") == 0 || std::string_view(what).find("all") == 0;
    const bool whole = blocks && std::string_view(what).find("allreduce") != 0;
    return check(got, right, what, detail, 0, whole ? count_ * size() : count_);
  }
  template <class Expected>
  Outcome<void> check(TypedBuffer& got, Expected right, const char* what, int detail, std::size_t begin,
                      std::size_t count) const {
    // Of many elements some are looked at: edges of pieces and of the ranks' parts lie anywhere.
    const std::size_t stride = count > 5000 ? 61 : 1;
    for (std::size_t i = 0; i < count; i += i + stride < count || i + 1 == count ? stride : count - 1 - i)
      if (got.get(begin + i) != right(i)) return wrong(what, detail);
    return got.intact() ? Outcome<void>() : wrong(what, -1);
  }

  Group& group_;
  trc_dtype dtype_;
  std::size_t count_, offset_;
  TypedBuffer own_, all_;
};

Outcome<void> try_all(Group& group, trc_dtype dtype, std::size_t count, std::size_t offset) {
  Trial trial(group, dtype, count, offset);
  for (const auto op : all_reductions)
    if (auto done = trial.reductions(op); !done) return done;
  for (int root = 0; root < group.size(); ++root)
    if (count == 7 || root == (static_cast<int>(dtype) + (count == 0 ? 1 : 0)) % group.size())
      if (auto done = trial.from_root(root); !done) return done;
  if (auto done = trial.to_all(); !done) return done;
  if (auto done = trial.uneven(); !done) return done;
  if (auto done = trial.untouched(); !done) return done;
  return group.barrier();
}

void try_size(const std::string& backend, std::uint32_t size, Backends backends) {
  CAPTURE(backend);
  CAPTURE(size);
  Ranks ranks(std::move(backends));
  ranks.all_do([&](Group& group, int) -> Outcome<void> {
    for (const auto dtype : all_types)
      for (const std::size_t count : {0, 1, 7, 301}) {
        if (backend != "shm" && size > 3 && (count == 1 || count == 7)) continue;  // they take long
        if (auto done = try_all(group, dtype, count, count % 2); !done) return done;
      }
    return {};
  });
}
void try_size(const std::string& backend, std::uint32_t size) {
  try_size(backend, size, backends_named(backend, size));
}

}  // namespace

TEST_CASE("every operation on every type in memory gives the reference's values on 1 to 8 ranks") {
  for (std::uint32_t size = 1; size <= 8; ++size) try_size("shm", size);
}

TEST_CASE("every operation on every type over Gloo gives the reference's values on 2 to 8 ranks") {
  for (std::uint32_t size = 2; size <= 8; ++size) try_size("gloo", size);
}

TEST_CASE("every operation on every type gives the reference's values on grids of hosts and ranks") {
  for (const auto& [hosts, locals] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{2, 2}, {3, 2}, {2, 4}})
    for (const bool in_turn : {false, true})
      try_size("hier", hosts * locals, hier_backends(hosts_for(hosts, locals, in_turn)));
}

TEST_CASE("operations that take many steps give the same, at every edge of a piece") {
  // Elements of eight bytes: around one piece, two, three, and such that the parts of the ranks are uneven.
  const auto try_edges = [&](Backends backends) {
    Ranks ranks(std::move(backends));
    const auto size = static_cast<std::size_t>(ranks.size());
    const auto bytes = shm_piece, piece = bytes / sizeof(double);
    const auto large = shm_large_piece(static_cast<std::uint32_t>(size)) / sizeof(double);
    CAPTURE(size);
    ranks.all_do([&](Group& group, int) -> Outcome<void> {
      for (const std::size_t count :
           {piece / size, piece, 2 * piece + 13, large / size, large, 2 * large + 13}) {
        Trial trial(group, TRC_F64, count, 1);
        if (auto done = trial.reductions(TRC_SUM); !done) return done;
        if (auto done = trial.from_root(group.size() - 1); !done) return done;
        if (auto done = trial.to_all(); !done) return done;
        if (auto done = trial.uneven(); !done) return done;
      }
      Trial odd(group, TRC_U8, bytes + 5, 3), half(group, TRC_BF16, bytes / 2 + 5, 1);
      if (auto done = odd.reductions(TRC_BXOR); !done) return done;
      if (auto done = odd.uneven(); !done) return done;
      return half.reductions(TRC_MEAN);
    });
  };
  for (const std::uint32_t size : {2, 3}) try_edges(shm_backends(size));
  try_edges(hier_backends(hosts_for(2, 2)));
  if (only_races) return;
  for (const std::uint32_t size : {8, 9}) try_edges(shm_backends(size));
  try_edges(hier_backends(hosts_for(2, 3, true)));
}

TEST_CASE("operations give the same whether or not their data comes with the agreement") {
  const auto try_edges = [&](Backends backends, std::size_t hosts) {
    Ranks ranks(std::move(backends));
    const auto size = static_cast<std::size_t>(ranks.size());
    CAPTURE(size);
    ranks.all_do([&](Group& group, int) -> Outcome<void> {
      for (const std::size_t most : {std::size_t{32} << 10, GlooAgreement::room})
        for (const auto share : {most / size, most / size / size, most / hosts, most / hosts / size})
          for (const auto count : {share / sizeof(double), share / sizeof(double) + 1}) {
            Trial trial(group, TRC_F64, count, 1);
            if (auto done = trial.reductions(TRC_SUM); !done) return done;
            if (auto done = trial.from_root(group.size() - 1); !done) return done;
            if (auto done = trial.to_all(); !done) return done;
            if (auto done = trial.uneven(); !done) return done;
          }
      Trial large(group, TRC_BF16, GlooAgreement::room, 1);
      if (auto done = large.reductions(TRC_MEAN); !done) return done;
      return large.untouched();
    });
  };
  try_edges(gloo_backends(2), 1);
  if (only_races) return try_edges(hier_backends(hosts_for(2, 2)), 2);
  try_edges(gloo_backends(5), 1);
  try_edges(hier_backends(hosts_for(3, 2, true)), 3);
}

TEST_CASE("factors are applied over every backend") {
  for (const std::string backend : {"shm", "gloo", "hier"})
    for (const auto dtype : {TRC_F16, TRC_BF16, TRC_F32, TRC_F64})
      for (const std::uint32_t size : {1, 2, 3, 4}) {
        if (backend == "hier" && size < 4) continue;
        Ranks ranks(backends_named(backend, size));
        ranks.all_do([&](Group& group, int rank) -> Outcome<void> {
          TypedBuffer data(dtype, 77, 1);
          for (std::size_t i = 0; i < 77; ++i) data.set(i, 4.0 * (rank + 1));
          if (auto done = group.allreduce(data.data(), data.data(), 77, dtype, TRC_SUM, {0.25, 2}); !done)
            return done;
          const double sum = 0.5 * 4 * size * (size + 1) / 2;
          if (data.get(0) == sum && data.get(76) == sum && data.intact()) return {};
          return comm::fail(TRC_INTERNAL, fmt::format("{} {} {}", name_of(dtype), data.get(0), sum));
        });
      }
}

TEST_CASE(
    "counts of alltoallv that do not fit together are told to all ranks, and the ranks by their numbers") {
  for (const std::string backend : {"shm", "gloo"}) {
    Ranks ranks(backends_named(backend, 3));
    const auto ended = ranks.all([&](Group& group, int rank) -> Outcome<void> {
      std::vector<std::uint64_t> given(3, 2), got(3, 2);
      if (rank == 1) got[2] = 5;
      std::vector<float> in(6), out(9);
      return group.alltoallv(in.data(), given.data(), out.data(), got.data(), TRC_F32);
    });
    for (const auto& one : ended) {
      REQUIRE_FALSE(one);
      CHECK(one.error().status == TRC_MISMATCH);
      CHECK(one.error().operation == "alltoallv");
      CHECK(one.error().message ==
            "alltoallv as operation 1: rank 2 gives 2 elements to rank 1, which expects 5");
    }
  }
}

TEST_CASE("whatever ranks may call differently is a mismatch on all of them") {
  using Work = std::function<Outcome<void>(Group&, bool odd)>;
  static double data[16];
  const std::uint64_t even_counts[] = {1, 2}, odd_counts[] = {2, 1};
  const std::vector<Work> works{
      [](Group& g, bool odd) { return g.allreduce(data, data, 1, odd ? TRC_F64 : TRC_I64, TRC_SUM); },
      [](Group& g, bool odd) { return g.allreduce(data, data, 1, TRC_F64, odd ? TRC_SUM : TRC_MAX); },
      [](Group& g, bool odd) {
        return g.allreduce(data, data, 1, TRC_F64, TRC_SUM, {odd ? 2.0 : 1.0, 1});
      },
      [](Group& g, bool odd) { return g.reduce(data, data + 4, 1, TRC_F64, TRC_SUM, odd ? 1 : 0); },
      [](Group& g, bool odd) { return g.reduce_scatter(data, data + 4, odd ? 1 : 2, TRC_F64, TRC_SUM); },
      [](Group& g, bool odd) { return g.gather(data, data + 4, 1, TRC_F64, odd ? 1 : 0); },
      [](Group& g, bool odd) { return g.scatter(data, data + 4, 1, TRC_F64, odd ? 1 : 0); },
      [&](Group& g, bool odd) {
        return g.allgatherv(data, data + 4, odd ? odd_counts : even_counts, TRC_F64);
      },
      [](Group& g, bool odd) { return odd ? g.barrier() : g.alltoall(data, data + 4, 1, TRC_F64); },
      [&](Group& g, bool odd) {
        return odd ? g.alltoallv(data, even_counts, data + 4, even_counts, TRC_F64) : g.barrier();
      },
  };
  for (const std::string backend : {"shm", "gloo"})
    for (std::size_t i = 0; i < works.size(); ++i) {
      CAPTURE(backend);
      CAPTURE(i);
      Ranks ranks(backends_named(backend, 2));
      for (const auto& one : ranks.all([&](Group&group, int rank) { return works[i](group, rank == 1); })) {
        REQUIRE_FALSE(one);
        CHECK_MESSAGE(one.error().status == TRC_MISMATCH, one.error().message);
        CHECK_MESSAGE(one.error().message.find("rank 0 called ") != std::string::npos, one.error().message);
      }
    }
}
