// The operations among some ranks of a world, in order, each agreed on before data moves; and what becomes of
// one that fails.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/failure.h"
#include "comm/recorder.h"
#include "launcher/base/time.h"

namespace trainrun::comm {

// A number for the group of that name, as rendezvous::Pulse has it.
std::uint32_t number_of(const std::string& group);
// "among ranks 0-2", or how many they are: `ranks` ascend.
std::string among(const std::vector<std::uint32_t>& ranks);

class Group {
 public:
  // The last operation, of which number 0 is to connect; `mark` grows with each beginning and each end of
  // one.
  struct Progress {
    std::uint64_t mark = 0;
    std::uint64_t bytes = 0;  // of one rank's buffer
    // Of the group, as rendezvous::Pulse has them.
    std::uint32_t number = 0, members = 0;
    std::string operation{};  // "allreduce among ranks 0-2"; empty: it has had none
    [[nodiscard]] bool in_operation() const { return mark % 2 == 1; }
    [[nodiscard]] std::uint64_t sequence() const { return mark == 0 ? 0 : (mark - 1) / 2; }
  };
  struct Factors {
    double before = 1, after = 1;  // of each rank's elements, and of the results
  };

  // `explain` finds out why an operation broke: from the rendezvous server, or from what the backend said.
  // `timed_out`: the operation's own time had passed; the backend said nothing then.
  using Explain =
      std::function<Failure(const std::string& operation, bool timed_out, const std::string& text)>;
  // What a group that is a part of a world has besides.
  struct Links {
    std::vector<std::uint32_t> world_ranks{};  // of its members, ascending; empty: all ranks of the world
    // Its members called different things, which ranks outside it do not know.
    std::function<void(const Failure&)> disagreed{};
    // Makes the group of this rank and another one of the members, for what goes from one to the other.
    std::function<Outcome<Group*>(int from, int to)> pair{};
    std::string name{};  // the same on all its members, and of no other group
    // What all its operations are to this rank, if they are one: "send to rank 2".
    std::string operation{};
  };

  Group(int rank, int size, std::unique_ptr<Backend> backend, Duration op_timeout, Explain explain)
      : Group(rank, size, std::move(backend), op_timeout, std::move(explain), Links()) {}
  Group(int rank, int size, std::unique_ptr<Backend> backend, Duration op_timeout, Explain explain,
        Links links);

  // What the buffers hold is said in trainrun_comm.h. `name`: see Descriptor.
  Outcome<void> allreduce(const void* in, void* out, std::size_t count, trc_dtype dtype, trc_op op) {
    return allreduce(in, out, count, dtype, op, Factors());
  }
  Outcome<void> allreduce(const void* in, void* out, std::size_t count, trc_dtype dtype, trc_op op,
                          Factors factors, std::uint32_t name = 0);
  // Of all elements of the tensors, which travel as the type `wire`. On a device alone.
  Outcome<void> allreduce_list(std::span<const Tensor> tensors, trc_dtype wire, trc_op op, Factors factors);
  Outcome<void> reduce(const void* in, void* out, std::size_t count, trc_dtype dtype, trc_op op, int root,
                       std::uint32_t name = 0);
  Outcome<void> reduce_scatter(const void* in, void* out, std::size_t count, trc_dtype dtype, trc_op op,
                               std::uint32_t name = 0);
  Outcome<void> broadcast(void* data, std::size_t count, trc_dtype dtype, int root, std::uint32_t name = 0);
  Outcome<void> allgather(const void* in, void* out, std::size_t count, trc_dtype dtype,
                          std::uint32_t name = 0);
  Outcome<void> allgatherv(const void* in, void* out, const std::uint64_t* counts, trc_dtype dtype,
                           std::uint32_t name = 0);
  Outcome<void> gather(const void* in, void* out, std::size_t count, trc_dtype dtype, int root,
                       std::uint32_t name = 0);
  Outcome<void> scatter(const void* in, void* out, std::size_t count, trc_dtype dtype, int root,
                        std::uint32_t name = 0);
  Outcome<void> alltoall(const void* in, void* out, std::size_t count, trc_dtype dtype,
                         std::uint32_t name = 0);
  Outcome<void> alltoallv(const void* in, const std::uint64_t* in_counts, void* out,
                          const std::uint64_t* out_counts, trc_dtype dtype, std::uint32_t name = 0);
  Outcome<void> barrier(std::uint32_t name = 0);
  // Takes part in what the others do, with zeros, until all have called this. Nothing but allreduces and
  // barriers can go on so.
  Outcome<void> join();
  // A barrier that nothing else goes with: ranks that are still to do something here disagree.
  Outcome<void> finalize();
  // Of a group on a device: until the event has happened there, which this rank has put behind its
  // operations.
  Outcome<void> settle(void* event);
  Outcome<void> send(const void* data, std::size_t count, trc_dtype dtype, int to);
  Outcome<void> receive(void* data, std::size_t count, trc_dtype dtype, int from);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::vector<std::uint32_t>& world_ranks() const { return links_.world_ranks; }

  // The same on all its members, and of no other group; empty: that of all ranks.
  [[nodiscard]] const std::string& name() const { return links_.name; }
  // Groups of two that this one has made, which end with it.
  [[nodiscard]] std::vector<const Group*> pairs();
  // What connects its backend, before its first operation: ends at the deadline as an operation does. `why`
  // is asked if it fails, while this rank still counts as one that is in it.
  Outcome<void> connect(const std::function<Outcome<Moved>()>& connecting, Deadline deadline,
                        const std::function<Failure(const Outcome<Moved>& failed)>& why);
  // From any thread: the operation that runs fails within milliseconds, and its explanation is asked for.
  void abort() { backend_->abort(); }
  // Of a group on a device; false for others. Between its operations.
  bool use_stream(void* stream) { return backend_->use_stream(stream); }
  // Operations that begin from now on are refused.
  void close() { closed_ = true; }
  // How long nobody need look at the time: until that of the operation that runs has passed, or that of one
  // which begins now would have.
  [[nodiscard]] Duration time_left(Instant now) const;
  // Ends the operation that runs if its time has passed, without that for which the process stood still since
  // the last look: a user who stops a job for a while does not mean its operations to fail. So no backend
  // measures the time of an operation by itself.
  void look_at_time(Instant now, Duration stood_still);
  // From any thread, without waiting for an operation that runs.
  [[nodiscard]] bool broken() const { return broken_; }
  // Why it is; nothing: it is not. It was written once, before that.
  [[nodiscard]] std::optional<Failure> why_broken() const { return broken_ ? failure_ : std::nullopt; }
  [[nodiscard]] bool disagreed() const { return disagreed_; }  // by a mismatch, which all of it hear of
  [[nodiscard]] const char* backend() const { return backend_->name(); }
  // From any thread, also while an operation runs.
  [[nodiscard]] Progress progress() const;
  [[nodiscard]] std::vector<Recorder::Operation> recent() const { return recorder_.read(); }

 private:
  Outcome<void> run(const Descriptor& what, const Transfer& data);
  Outcome<void> run_alone(Descriptor what, const Transfer& data);  // with the mutex
  // Nothing: it is done; else who disagrees.
  Outcome<std::optional<Disagreement>> attempt(const Descriptor& what, const Transfer& data);
  // `counts`: of an allgatherv, what this rank gave.
  Failure disagreed(const Disagreement& other, const Descriptor& what, std::span<const std::uint64_t> counts);
  Outcome<void> give(Call call, const void* in, void* out, std::size_t count, trc_dtype dtype, int root,
                     std::uint32_t name);
  Outcome<void> hand_over(const void* in, void* out, std::size_t count, trc_dtype dtype, int from, int other);
  Failure finish(Failure failure, const Descriptor& what);
  Failure mismatch(const std::string& message, const Descriptor& what);
  [[nodiscard]] std::uint32_t world_rank(std::uint32_t member) const;
  [[nodiscard]] std::string in_group(const Descriptor& what) const;  // words; of all ranks: none
  [[nodiscard]] Outcome<void> check_type(trc_dtype dtype, std::uint64_t count) const;
  [[nodiscard]] Outcome<void> check_member(int rank) const;

  int rank_, size_;
  std::unique_ptr<Backend> backend_;
  Duration op_timeout_;
  Explain explain_;
  Links links_;
  std::mutex mutex_;  // held while an operation runs and is explained
  std::uint64_t sequence_ = 0;
  std::atomic<std::uint64_t> mark_{0};
  std::atomic<Call> call_{Call::barrier};
  std::atomic<std::uint64_t> bytes_{0};
  const std::uint32_t number_;  // see Progress
  const std::string among_;     // words behind an operation's name; of all ranks: none
  Recorder recorder_;
  std::optional<Failure> failure_;  // the first: it answers every later call
  std::atomic<bool> broken_ = false, disagreed_ = false;
  std::atomic<bool> closed_ = false;
  // The end of the time of the operation that runs, or one of these.
  static constexpr Instant idle{}, expired = Instant::max();
  std::atomic<Instant> time_ends_ = idle;

  // Of the operation with that number; see Progress.
  [[nodiscard]] static std::uint64_t begin_of(std::uint64_t sequence) { return 2 * sequence + 1; }
  [[nodiscard]] static std::uint64_t end_of(std::uint64_t sequence) { return 2 * sequence + 2; }

  struct Pair {
    std::mutex mutex;  // held while it is made
    Group* group = nullptr;
  };
  std::mutex pairs_mutex_;
  std::map<std::pair<int, int>, Pair> pairs_;  // by who gives and who gets; nodes stay where they are
};

}  // namespace trainrun::comm
