// This process's membership in a job: rendezvous, the group of all ranks, and the failure watcher.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/backends/nccl/kit.h"
#include "comm/environment.h"
#include "comm/failure.h"
#include "comm/group_making.h"
#include "comm/groups.h"
#include "comm/watcher.h"
#include "rendezvous/client.h"

namespace trainrun::comm {

namespace nccl {
class NcclBackend;
struct UniqueId;
}  // namespace nccl

// How a world is entered that is one of several.
struct Entry {
  bool elastic = false;                        // this process can go on in the next generation
  std::optional<rendezvous::Client> client{};  // one that has its place in the generation; else a new one
};

class World {
 public:
  // Ends it, or keeps it until the end of the process: while other ranks may count on this one, its
  // connections stay open. They would fail at once otherwise, before anybody knows how this process ends, and
  // be taken for the cause.
  struct Close {
    bool in_use = false;  // by a thread that is not waited for: it stays, in any case
    void operator()(World* world) const;
  };
  using Owner = std::unique_ptr<World, Close>;

  static Outcome<Owner> init(const Environment& environment, Entry entry = {});
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // This rank leaves a world that has not failed for the others: they hear so at once, and nobody waits for
  // it.
  void give_up();
  // Waits for the other ranks' finalize, and leaves the job. Only the first call does something. When not all
  // come, this rank leaves at the end of its process.
  Outcome<void> finalize(Duration wait);
  // Ends the work here without leaving the job, and gives the connection to the server, by which the place in
  // the next generation is asked for; nothing when there is none. `together`: no rank has failed, and all do
  // this now, so none closes its connections while another still reads from them.
  std::optional<rendezvous::Client> release(bool together);

  // Whether any rank has heard that hosts will come or go: TRC_HOSTS_UPDATED on all ranks, or success on all.
  Outcome<void> check_host_updates();
  // This rank alone has heard that it is to go.
  [[nodiscard]] bool should_stop() const { return watcher_ && watcher_->notices().stop; }

  // For a program whose data goes through another library.
  // What its connections and its steps are told to; null without a launcher.
  [[nodiscard]] Watcher* watcher() { return watcher_.get(); }
  // Why an operation of that library failed, which said `text`; the world is over.
  Failure foreign_failure(const std::string& operation, bool timed_out, const std::string& text);
  // Values that the members of this generation tell each other. A wait fails as soon as the generation ends.
  Outcome<void> put(std::string key, std::string value);
  Outcome<std::string> get(std::string key, Duration within);
  // An empty `expected`: the key must not exist. The value afterwards.
  Outcome<std::string> compare_and_set(std::string key, std::string expected, std::string desired);

  [[nodiscard]] const rendezvous::World& members() const { return world_; }
  [[nodiscard]] const rendezvous::Member& self() const { return world_.members[rank_]; }
  [[nodiscard]] Group& group() { return *group_; }
  // Of these ranks, in ascending order, which all call it; null on a rank that is none of them. Until
  // close_group, which all of them call, or as long as the world.
  Outcome<Group*> make_group(std::vector<std::uint32_t> ranks);
  Outcome<void> close_group(Group& group);
  // Waits for nobody: says that this rank, which has no operation in it any more, has left it. True once all
  // members have: then it is gone. To be called again until then.
  Outcome<bool> leave_group(Group& group);
  // Unique ids for one NCCL communicator of these ranks, which all call it, of which the first makes them.
  Outcome<std::vector<nccl::UniqueId>> nccl_ids(std::vector<std::uint32_t> ranks);
  // The same as make_group, for buffers on a device of this process.
  Outcome<Group*> make_device_group(std::vector<std::uint32_t> ranks, int device, void* stream,
                                    const std::string& purpose = {});
  // How the ranks exchange bytes: "local", "shm", "gloo" or "hier".
  [[nodiscard]] const char* backend() const { return group_->backend(); }
  [[nodiscard]] Duration op_timeout() const { return op_timeout_; }

 private:
  World() = default;
  ~World();
  Outcome<void> meet(const Environment& environment, Entry entry);
  // `among`: the ranks that the operation is of; empty: all. `name`: of their group.
  // `text`: what is known of it, if anything.
  Failure explain(const std::string& operation, bool timed_out, const std::string& text,
                  const std::vector<std::uint32_t>& among = {}, const std::string& name = "all");
  // The same where it is known who has not come in time.
  Failure explain_absence(const std::string& operation, std::vector<std::uint32_t> missing,
                          const std::string& text = {});
  // The same for a connection, which others may have made meanwhile: whoever it is to is to blame, if it does
  // not wait for one itself.
  Failure explain_connection(const std::string& operation, const Broken& broken, Deadline deadline,
                             const std::vector<std::uint32_t>& among = {}, const std::string& name = "all");
  // With the client: words for a time that has passed, and the end of the world for that or another reason.
  Failure late(const std::string& operation, std::vector<std::uint32_t> missing, const std::string& text);
  Failure tell(Failure failure, const std::string& operation);
  // Why an errand failed: if it was interrupted, because the world is over.
  Failure errand_failure(const std::string& operation, Failure failure) const;
  // Of ranks of which this is one. `name`: the same on all of them, and of no other group. `opening`: what
  // this is called if it fails. `operation`: see Group::Links.
  Outcome<Group*> open_group(rendezvous::Client& client, std::vector<std::uint32_t> ranks,
                             const std::string& name, const std::string& opening,
                             const std::string& operation = {});
  void remove(Group& group);
  // Until all of its ranks make the group.
  Outcome<void> meet_members(rendezvous::Client& client, const Making& making);
  // After all of `ranks` have come to `meeting`, so that each of them hears of it in words of its own.
  void end_in_mismatch(const Failure& failure, const std::string& meeting,
                       const std::vector<std::uint32_t>& ranks, Duration within);
  // What ends the world when each of these waits for the next, and this rank is one of them.
  Failure crossed(const std::vector<Waiting>& ring);
  // Ascending, if they can be a group.
  Outcome<void> put_in_order(std::vector<std::uint32_t>& ranks) const;
  // Of the next group of these ranks, the same on all of them.
  // `purpose`: of groups that are counted by themselves.
  std::string next_name(const std::vector<std::uint32_t>& ranks, const std::string& purpose = {});
  Outcome<std::vector<nccl::UniqueId>> nccl_ids(const std::vector<std::uint32_t>& ranks,
                                                const std::string& name, const nccl::Kit& kit);
  Outcome<void> compare_kits(rendezvous::Client& client, const std::vector<std::uint32_t>& ranks,
                             const std::string& name, const nccl::Kit& kit, Deadline deadline);
  // Why something on a device failed: there, or because a rank has gone.
  Failure explain_device(const std::string& operation, bool timed_out, const std::string& text,
                         const std::vector<std::uint32_t>& among, const std::string& name,
                         const nccl::NcclBackend& nccl);
  Outcome<Group*> open_pair(const std::vector<std::uint32_t>& ranks, const std::string& name, int from,
                            int to);
  Group::Links links(std::vector<std::uint32_t> ranks, const std::string& name,
                     const std::string& operation = {});
  Outcome<rendezvous::Client> connect(Duration within) const;
  // With the client, as part: all ranks are here.
  Outcome<void> meet_at_end(Duration wait);
  Outcome<void> part(const Outcome<void>& met);
  // No rank counts on this one any more, or all know that.
  bool parted();

  Environment environment_;
  rendezvous::World world_;
  std::uint32_t rank_ = 0;
  std::string address_;
  Duration op_timeout_{};
  std::atomic<bool> complete_ = false;  // init succeeded
  std::atomic<bool> finalized_ = false;
  std::atomic<bool> met_at_end_ = false;
  bool ignores_sigpipe_ = false;
  std::mutex client_mutex_;
  std::optional<rendezvous::Client> client_;
  std::mutex mismatch_mutex_;
  std::optional<Failure> mismatch_;  // of some of the ranks, of which this is one
  // The watcher aborts the groups, so it goes first.
  Groups groups_;
  Group* group_ = nullptr;  // of all ranks
  std::unique_ptr<Watcher> watcher_;
  std::mutex names_mutex_;
  std::map<std::uint64_t, std::uint32_t> named_;  // how many groups there were of the same ranks
  std::map<const Group*, std::string> group_names_;
  std::set<const Group*> left_;  // of which the others were told
};

}  // namespace trainrun::comm
