#include "comm/backends/gloo/gloo_moves.h"

#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace trainrun::comm {
namespace {

// Slots that no collective of Gloo uses (its prefixes are small numbers in the top byte), nor agreement.
constexpr std::uint64_t move_slot = std::uint64_t{0x41} << 56;
constexpr std::uint64_t widened_at_once = std::uint64_t{1} << 20;  // elements

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

}  // namespace

void GlooMove::exchange(int to, const void* out, std::size_t out_bytes, int from, void* in,
                        std::size_t in_bytes, std::uint64_t round) const {
  std::unique_ptr<gloo::transport::UnboundBuffer> sent, heard;
  if (in_bytes > 0) {
    heard = mesh->createUnboundBuffer(in, in_bytes);
    heard->recv(from, move_slot + round);
  }
  if (out_bytes > 0) {
    // Gloo does not write to it, but has no type for that.
    sent = mesh->createUnboundBuffer(const_cast<void*>(out), out_bytes);
    sent->send(to, move_slot + round);
  }
  if (heard) heard->waitRecv(time_until(deadline));
  if (sent) sent->waitSend(time_until(deadline));
}

void GlooMove::ring_allreduce(void* wide, std::size_t count) const {
  const auto type = wide_type(what.dtype, what.op);
  gloo::AllreduceOptions options(std::static_pointer_cast<gloo::Context>(mesh));
  const auto run = [&]<class Element>(Element) { options.setOutput(static_cast<Element*>(wide), count); };
  if (size_of(type) == 1) run(std::uint8_t{});
  if (size_of(type) == 4) run(std::uint32_t{});
  if (size_of(type) == 8) run(std::uint64_t{});
  options.setReduceFunction(reduce_kernel(type, what.op));
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setTimeout(time_until(deadline));
  gloo::allreduce(options);
}

void GlooMove::allreduce() const {
  const auto reduction = reduction_of(what, size());
  if (wide_type(what.dtype, what.op) == what.dtype) {
    begin_reduction(reduction, data.out, data.in, what.count);
    ring_allreduce(data.out, what.count);
    return end_reduction(reduction, data.out, data.out, what.count);
  }
  // New memory of twice the data's size costs several times what the ring does.
  const auto piece = std::min(what.count, widened_at_once);
  const auto room = std::make_unique_for_overwrite<double[]>(piece);
  for (std::size_t first = 0; first < what.count; first += piece) {
    const auto count = std::min(piece, what.count - first);
    begin_reduction(reduction, room.get(), in() + first * width(), count);
    ring_allreduce(room.get(), count);
    end_reduction(reduction, out() + first * width(), room.get(), count);
  }
}

void GlooMove::reduce() const {
  if (rank() == what.root) return allreduce();
  std::vector<char> unwanted(block());
  const Transfer own{data.in, unwanted.data(), {}};
  GlooMove{mesh, what, own, deadline}.allreduce();
}

// Around the ring: what has been combined of a block goes to the next rank, and ends with the block's own.
void GlooMove::reduce_scatter() const {
  const auto reduction = reduction_of(what, size());
  const auto type = wide_type(what.dtype, what.op);
  const auto combine = reduce_kernel(type, what.op);
  const auto bytes = what.count * size_of(type);
  const auto own = std::make_unique_for_overwrite<double[]>(what.count);
  const auto sent = std::make_unique_for_overwrite<double[]>(what.count);
  const auto heard = std::make_unique_for_overwrite<double[]>(what.count);
  const auto load = [&](int of, void* to) {
    begin_reduction(reduction, to, in() + static_cast<std::size_t>(of) * block(), what.count);
  };
  load(after(-1), sent.get());
  for (int step = 1; step < size(); ++step) {
    exchange(after(1), sent.get(), bytes, after(-1), heard.get(), bytes, static_cast<std::uint64_t>(step));
    load(after(-1 - step), own.get());
    combine(sent.get(), own.get(), heard.get(), what.count);
  }
  end_reduction(reduction, data.out, sent.get(), what.count);
}

void GlooMove::broadcast() const {
  gloo::BroadcastOptions options(std::static_pointer_cast<gloo::Context>(mesh));
  options.setOutput(out(), block());
  options.setRoot(what.root);
  options.setTimeout(time_until(deadline));
  gloo::broadcast(options);
}

void GlooMove::allgather() const {
  std::vector<std::size_t> begin{0};
  for (int other = 0; other < size(); ++other)
    begin.push_back(begin.back() +
                    (data.counts.empty() ? what.count : data.counts[static_cast<std::size_t>(other)]) *
                        width());
  const auto block_of = [&](int other) { return out() + begin[static_cast<std::size_t>(other)]; };
  const auto bytes_of = [&](int other) {
    return begin[static_cast<std::size_t>(other) + 1] - begin[static_cast<std::size_t>(other)];
  };
  copy(block_of(rank()), in(), bytes_of(rank()));
  for (int step = 0; step < size() - 1; ++step) {
    const int sent = after(-step), heard = after(-step - 1);
    exchange(after(1), block_of(sent), bytes_of(sent), after(-1), block_of(heard), bytes_of(heard),
             static_cast<std::uint64_t>(step));
  }
}

// What has a way of t ranks to go around the ring is handed on in the rounds that are the bits of t; so in
// each round a rank holds at most one part for each t, and knows which: that of the rank that the lower bits
// lead back to.
void GlooMove::route(const Routes& routes) const {
  const auto ways = static_cast<std::size_t>(size());
  std::vector<std::vector<char>> held(ways);
  copy(routes.got(rank()), routes.given(rank()), routes.bytes(rank(), rank()));
  for (int way = 1; way < size(); ++way) {
    const auto bytes = routes.bytes(rank(), after(way));
    const auto* const from = routes.given(after(way));
    if (bytes > 0) held[static_cast<std::size_t>(way)].assign(from, from + bytes);
  }
  std::uint64_t round = 0;
  for (int step = 1; step < size(); step *= 2, ++round) {
    std::vector<char> sent;
    std::size_t heard_bytes = 0;
    const auto coming = [&](int way) {
      const int origin = after(-step - way % step);
      return routes.bytes(origin, (origin + way) % size());
    };
    for (int way = step; way < size(); ++way) {
      if ((way & step) == 0) continue;
      const auto& part = held[static_cast<std::size_t>(way)];
      sent.insert(sent.end(), part.begin(), part.end());
      heard_bytes += coming(way);
    }
    std::vector<char> heard(heard_bytes);
    exchange(after(step), sent.data(), sent.size(), after(-step), heard.data(), heard.size(), round);
    const auto* from = heard.data();
    for (int way = step; way < size(); ++way) {
      if ((way & step) == 0) continue;
      const auto bytes = coming(way);
      held[static_cast<std::size_t>(way)].assign(from, from + bytes);
      from += bytes;
    }
  }
  for (int way = 1; way < size(); ++way) {
    const auto& part = held[static_cast<std::size_t>(way)];
    copy(routes.got(after(-way)), part.data(), part.size());
  }
}

void GlooMove::gather() const {
  route({[&](int, int to) { return to == what.root ? block() : 0; }, [&](int) { return in(); },
         [&](int from) {
           return rank() == what.root ? out() + static_cast<std::size_t>(from) * block() : nullptr;
         }});
}

void GlooMove::scatter() const {
  route(
      {[&](int from, int) { return from == what.root ? block() : 0; },
       [&](int to) { return rank() == what.root ? in() + static_cast<std::size_t>(to) * block() : nullptr; },
       [&](int) { return out(); }});
}

void GlooMove::alltoall() const {
  const auto bytes = [&](int from, int to) {
    return data.counts.empty() ? block()
                               : data.counts[static_cast<std::size_t>(from * size() + to)] * width();
  };
  std::vector<std::size_t> given{0}, got{0};
  for (int other = 0; other < size(); ++other) {
    given.push_back(given.back() + bytes(rank(), other));
    got.push_back(got.back() + bytes(other, rank()));
  }
  route({bytes, [&](int to) { return in() + given[static_cast<std::size_t>(to)]; },
         [&](int from) { return out() + got[static_cast<std::size_t>(from)]; }});
}

}  // namespace trainrun::comm
