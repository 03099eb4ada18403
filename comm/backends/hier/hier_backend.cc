#include "comm/backends/hier/hier_backend.h"

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>

#include "comm/backends/gloo/gloo_small.h"

namespace trainrun::comm {
namespace {

using Stop = std::variant<Broken, Disagreement>;
using Step = tl::expected<void, Stop>;

// So much of a reduction does each rank combine at once: it stays in the cache, and the steps between hosts,
// which cost some hundred microseconds each, are few.
constexpr std::size_t large_share = std::size_t{1} << 20;

const char* at(const void* data, std::size_t bytes) { return static_cast<const char*>(data) + bytes; }
char* at(void* data, std::size_t bytes) { return static_cast<char*>(data) + bytes; }

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

Step step_of(const Performed& done) {
  if (!done) return tl::unexpected(Stop(done.error()));
  if (*done) return tl::unexpected(Stop(**done));
  return {};
}

// What the first rank of a host has heard from those of the others, for the ranks of its host.
struct Answer {
  enum class Kind : std::uint8_t { agreed, disagreed, broken };
  Kind kind = Kind::agreed;
  std::array<char, 127> text{};  // of what is broken; ends with a zero
  Disagreement disagreement{};
};
static_assert(std::is_trivially_copyable_v<Answer>);

Answer answer_of(const Step& heard) {
  Answer answer;
  if (heard) return answer;
  if (const auto* disagreement = std::get_if<Disagreement>(&heard.error())) {
    answer.kind = Answer::Kind::disagreed;
    answer.disagreement = *disagreement;
  } else {
    answer.kind = Answer::Kind::broken;
    const auto& text = std::get<Broken>(heard.error()).text;
    text.copy(answer.text.data(), answer.text.size() - 1);
  }
  return answer;
}

Step step_of(const Answer& answer) {
  switch (answer.kind) {
    case Answer::Kind::agreed:
      return {};
    case Answer::Kind::disagreed:
      return tl::unexpected(Stop(answer.disagreement));
    case Answer::Kind::broken:
      break;
  }
  return tl::unexpected(Stop(Broken{answer.text.data()}));
}

Descriptor part_of(Call call, std::size_t count, trc_dtype dtype, trc_op op = TRC_SUM,
                   std::uint32_t root = 0) {
  Descriptor part;
  part.call = call;
  part.count = count;
  part.dtype = dtype;
  part.op = op;
  part.root = static_cast<std::int32_t>(root);
  return part;
}

}  // namespace

// One operation of this rank.
class HierBackend::Operation {
 public:
  Operation(HierBackend& backend, const Descriptor& what, const Transfer& data, Deadline deadline)
      : b_(backend),
        grid_(backend.grid_),
        what_(what),
        data_(data),
        deadline_(deadline),
        own_rank_(grid_.rank_at(grid_.host, grid_.local)),
        wide_(wide_type(what.dtype, what.op)),
        combining_(what.op == TRC_MEAN ? TRC_SUM : what.op) {}

  Step run() {
    if (what_.count == 0 && data_.counts.empty()) return agree();
    switch (what_.call) {
      case Call::barrier:
      case Call::join:
      case Call::finalize:
      case Call::settle:
        return agree();
      case Call::allreduce:
        return allreduce(data_.out);
      case Call::reduce:
        return reduce();
      case Call::reduce_scatter:
        return reduce_scatter();
      case Call::broadcast:
        return broadcast();
      case Call::allgather:
        return allgather();
      case Call::send:
      case Call::gather:
      case Call::scatter:
      case Call::allgatherv:
      case Call::alltoall:
      case Call::alltoallv:
      case Call::alltoallv_plan:
        break;
    }
    if (auto agreed = agree(); !agreed) return agreed;
    const auto moved = b_.flat_->move(what_, data_, deadline_);
    return moved ? Step() : tl::unexpected(Stop(moved.error()));
  }

 private:
  // What the ranks of this host do first. If they disagree, the other hosts are to hear it from between().
  Step begin(const Descriptor& part, const Transfer& data) {
    const auto done = b_.local_->perform_part(what_, part, data, deadline_);
    if (!done) return tl::unexpected(Stop(done.error()));
    if (*done) {
      heard_ = **done;
      for (auto* const rank : {&heard_->first_rank, &heard_->second_rank})
        *rank = grid_.rank_at(grid_.host, *rank);
    }
    return {};
  }
  Step moved_between(const Descriptor& part, const Transfer& data) {
    const auto moved = b_.across_->move(part, data, deadline_);
    return moved ? Step() : tl::unexpected(Stop(moved.error()));
  }
  Step on_host(const Descriptor& part, const Transfer& data) {
    return step_of(b_.local_->perform_part(what_, part, data, deadline_));
  }

  // Follows begin() in every operation, whatever it is: the first ranks of the hosts agree, do `part`, which
  // is small, and tell their hosts, so that one message leaves a host. `room` has space for an Answer and
  // `bytes` bytes, which are the part's result everywhere in the end; `in` is what this host gives to it, and
  // wanted of its first rank alone. Done only if all ranks of all hosts agree.
  Step between(const Descriptor& part, const void* in, void* room, std::size_t bytes) {
    if (grid_.local == 0) {
      const auto answer = answer_of(step_of(b_.across_->perform_part(
          {what_, own_rank_, heard_}, part, {in, at(room, sizeof(Answer)), {}}, deadline_)));
      std::memcpy(room, &answer, sizeof answer);
    }
    // Ranks of a host that disagree have other parts.
    const auto told = part_of(Call::broadcast, sizeof(Answer) + (heard_ ? 0 : bytes), TRC_U8);
    if (auto done = step_of(b_.local_->perform_part(told, told, {room, room, {}}, deadline_)); !done)
      return done;
    Answer answer;
    std::memcpy(&answer, room, sizeof answer);
    return step_of(answer);
  }
  Step meet_between() {
    std::array<char, sizeof(Answer)> room{};
    return between(part_of(Call::barrier, 0, TRC_U8), nullptr, room.data(), 0);
  }
  Step agree() {
    if (auto begun = begin(part_of(Call::barrier, 0, TRC_U8), {}); !begun) return begun;
    return meet_between();
  }
  // So small that the hosts can say it with their agreement.
  [[nodiscard]] bool is_small(const Descriptor& part) const {
    return small_gift(part, static_cast<int>(grid_.hosts)) > 0;
  }
  // For an Answer and `elements` of any type.
  void* answer_room(std::size_t elements) {
    static_assert(sizeof(Answer) % sizeof(double) == 0);
    return b_.share_.get(elements + sizeof(Answer) / sizeof(double));
  }

  [[nodiscard]] Reduction whole() const {
    return reduction_of(what_, static_cast<int>(grid_.hosts * grid_.locals));
  }
  [[nodiscard]] std::size_t width() const { return size_of(wide_); }
  [[nodiscard]] std::size_t block() const { return what_.count * size_of(what_.dtype); }
  [[nodiscard]] Descriptor reduction(Call call, std::size_t count) const {
    return part_of(call, count, wide_, combining_);
  }

  // In the wide type; nothing reaches `out` before all agree. Others than the root of a reduce have room for
  // it.
  Step allreduce(void* out) {
    if (is_small(reduction(Call::allreduce, what_.count))) {
      const auto sum = small_sum(what_.count);
      if (!sum) return tl::unexpected(sum.error());
      end_reduction(whole(), out, *sum, what_.count);
      return {};
    }
    const auto piece = large_share / width() * grid_.locals;
    for (std::size_t begin = 0; begin < what_.count; begin += piece)
      if (auto done = allreduce_piece(begin, std::min(piece, what_.count - begin), out); !done) return done;
    return {};
  }

  // What this rank gives of a reduction, from element `begin` on, ready to be combined.
  const void* widened(std::size_t begin, std::size_t count) {
    const auto* const in = at(data_.in, begin * size_of(what_.dtype));
    if (wide_ == what_.dtype && what_.before == 1) return in;
    auto* const wide = b_.wide_.get(count);
    begin_reduction(whole(), wide, in, count);
    return wide;
  }

  // What all ranks give together, in the wide type.
  tl::expected<void*, Stop> small_sum(std::size_t count) {
    const auto part = reduction(Call::allreduce, count);
    auto* const room = answer_room(count);
    auto* const sum = at(room, sizeof(Answer));
    if (auto begun = begin(part, {widened(0, count), sum, {}}); !begun) return tl::unexpected(begun.error());
    if (auto done = between(part, sum, room, count * width()); !done) return tl::unexpected(done.error());
    return sum;
  }

  // What is left over when the elements are divided among the ranks of a host goes with each one's share.
  Step allreduce_piece(std::size_t from, std::size_t count, void* out) {
    const auto share = count / grid_.locals, rest = count % grid_.locals;
    const auto divided = (count - rest) * width();
    const auto* const in = widened(from, count);
    void* const own = b_.share_.get(share + rest);
    void* const own_rest = at(own, share * width());
    auto* const to = at(out, from * size_of(what_.dtype));
    // Halves are narrowed into `out` at the end.
    void* const result = wide_ == what_.dtype ? to : b_.wide_.get(count);

    const bool first = from == 0;
    const auto scatter = reduction(Call::reduce_scatter, share);
    if (auto done = first ? begin(scatter, {in, own, {}}) : on_host(scatter, {in, own, {}}); !done)
      return done;
    if (rest > 0 && !heard_)
      if (auto done = on_host(reduction(Call::allreduce, rest), {at(in, divided), own_rest, {}}); !done)
        return done;
    if (first)
      if (auto met = meet_between(); !met) return met;
    if (auto done = moved_between(reduction(Call::allreduce, share + rest), {own, own, {}}); !done)
      return done;
    copy(at(result, divided), own_rest, rest * width());
    if (auto done = on_host(part_of(Call::allgather, share, wide_), {own, result, {}}); !done) return done;
    end_reduction(whole(), to, result, count);
    return {};
  }

  Step reduce() {
    if (static_cast<std::uint32_t>(what_.root) == own_rank_) return allreduce(data_.out);
    Room unwanted;
    return allreduce(unwanted.get(what_.count));
  }

  // Blocks are put together by their rank's place on its host.
  Step reduce_scatter() {
    const auto column = grid_.hosts * what_.count;
    if (is_small(reduction(Call::allreduce, grid_.locals * column))) {
      const auto sum = small_sum(grid_.locals * column);
      if (!sum) return tl::unexpected(sum.error());
      end_reduction(whole(), data_.out, at(*sum, own_rank_ * what_.count * width()), what_.count);
      return {};
    }
    Room all_room, own_room, result_room;
    void *const all = all_room.get(grid_.locals * column), *const own = own_room.get(column);
    void* const result = result_room.get(what_.count);
    for (std::uint32_t local = 0; local < grid_.locals; ++local)
      for (std::uint32_t host = 0; host < grid_.hosts; ++host)
        begin_reduction(whole(), at(all, (local * column + host * what_.count) * width()),
                        at(data_.in, grid_.rank_at(host, local) * block()), what_.count);
    if (auto begun = begin(reduction(Call::reduce_scatter, column), {all, own, {}}); !begun) return begun;
    if (auto met = meet_between(); !met) return met;
    if (auto done = moved_between(reduction(Call::reduce_scatter, what_.count), {own, result, {}}); !done)
      return done;
    end_reduction(whole(), data_.out, result, what_.count);
    return {};
  }

  // Over the connections of the root and those in its place, then on each host.
  Step broadcast() {
    std::uint32_t host = 0, local = 0;
    for (std::uint32_t i = 0; i < grid_.ranks.size(); ++i)
      if (grid_.ranks[i] == static_cast<std::uint32_t>(what_.root)) {
        host = i / grid_.locals;
        local = i % grid_.locals;
      }
    const auto from = [&](std::uint32_t root) {
      return part_of(Call::broadcast, what_.count, what_.dtype, TRC_SUM, root);
    };
    if (is_small(from(host))) return small_broadcast(from(host), host, from(local));
    if (auto agreed = agree(); !agreed) return agreed;
    if (grid_.local == local)
      if (auto done = moved_between(from(host), data_); !done) return done;
    return on_host(from(local), {data_.out, data_.out, {}});
  }

  // The first rank of the root's host must have it first.
  Step small_broadcast(const Descriptor& part, std::uint32_t root_host, const Descriptor& from_root) {
    auto* const room = answer_room(what_.count);
    auto* const given = at(room, sizeof(Answer));
    const bool is_root = static_cast<std::uint32_t>(what_.root) == own_rank_;
    if (is_root) copy(given, data_.in, block());
    auto begun = grid_.host == root_host ? begin(from_root, {given, given, {}})
                                         : begin(part_of(Call::barrier, 0, TRC_U8), {});
    if (!begun) return begun;
    if (auto done = between(part, given, room, block()); !done) return done;
    if (!is_root) copy(data_.out, given, block());
    return {};
  }

  Step allgather() {
    const auto gather = [&](std::size_t count) { return part_of(Call::allgather, count, what_.dtype); };
    const auto row = grid_.locals * what_.count, column = grid_.hosts * what_.count;
    if (is_small(gather(row))) {
      auto* const own = b_.wide_.get(row);
      auto* const room = answer_room(grid_.hosts * row);
      if (auto begun = begin(gather(what_.count), {data_.in, own, {}}); !begun) return begun;
      if (auto done = between(gather(row), own, room, grid_.ranks.size() * block()); !done) return done;
      for (std::size_t i = 0; i < grid_.ranks.size(); ++i)
        copy(at(data_.out, grid_.ranks[i] * block()), at(room, sizeof(Answer) + i * block()), block());
      return {};
    }
    Room own_room, all_room;
    void *const own = own_room.get(column), *const all = all_room.get(grid_.locals * column);
    if (auto agreed = agree(); !agreed) return agreed;
    if (auto done = moved_between(gather(what_.count), {data_.in, own, {}}); !done) return done;
    if (auto done = on_host(gather(column), {own, all, {}}); !done) return done;
    for (std::uint32_t local = 0; local < grid_.locals; ++local)
      for (std::uint32_t host = 0; host < grid_.hosts; ++host)
        copy(at(data_.out, grid_.rank_at(host, local) * block()),
             at(all, (local * grid_.hosts + host) * block()), block());
    return {};
  }

  HierBackend& b_;
  const HostGrid& grid_;
  const Descriptor& what_;
  const Transfer& data_;
  Deadline deadline_;
  std::uint32_t own_rank_;
  trc_dtype wide_;
  trc_op combining_;
  std::optional<Disagreement> heard_{};
};

HierBackend::HierBackend(HostGrid grid, std::unique_ptr<ShmBackend> local,
                         std::unique_ptr<GlooBackend> across, std::unique_ptr<GlooBackend> flat)
    : grid_(std::move(grid)), local_(std::move(local)), across_(std::move(across)), flat_(std::move(flat)) {}

Performed HierBackend::perform(const Descriptor& what, const Transfer& data, Deadline deadline) {
  const auto done = Operation(*this, what, data, deadline).run();
  if (done) return std::nullopt;
  if (const auto* disagreement = std::get_if<Disagreement>(&done.error())) {
    auto told = *disagreement;
    told.odd = std::nullopt;  // a host knows of its own ranks alone
    return told;
  }
  return tl::unexpected(std::get<Broken>(done.error()));
}

void HierBackend::abort() {
  local_->abort();
  across_->abort();
  flat_->abort();
}

}  // namespace trainrun::comm
