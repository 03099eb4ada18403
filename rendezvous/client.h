// A member's side of the rendezvous: blocking calls with deadlines over one connection. Not thread-safe, but
// for interrupt(); one that waits long (watch) uses a Client of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "rendezvous/messages.h"
#include "rendezvous/secure_channel.h"

namespace trainrun::rendezvous {

template <class T>
using Answer = tl::expected<T, Failure>;

class Client {
 public:
  // Connects and proves the key to the server, and has the server prove it. All later calls are about
  // `generation`. A server that does not listen yet, or hangs up before it has proven itself because too many
  // come at once, is tried again until `within` has passed.
  static Answer<Client> connect(const std::string& address, const Key& key, Generation generation,
                                Duration within);
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // Each wait is answered by the server within the given time; a server that does not answer at all makes the
  // call fail as disconnected a few seconds later.
  // `worker` 0: it has no number. `elastic`: it will ask for its place in the next generation.
  Answer<Joined> join(std::optional<Rank> rank, std::string host, std::string address, Duration within,
                      WorkerId worker = {}, bool elastic = false);
  // Of a world that is complete: of the ranks first .. first+count-1, at most max_members.
  Answer<std::vector<Member>> members(Rank first, std::uint32_t count);
  // All of them, which are those of `joined`'s digest. As long as the world is large.
  Answer<World> world(const Joined& joined);
  Answer<void> leave();
  // The connection's end is to count as leaving. Does not wait for the answer.
  Answer<void> leave_at_close();
  // From now on a server that does not answer has only so much more than the time that a call may wait.
  void hurry(Duration slack);
  Answer<void> put(std::string key, std::string value);
  Answer<std::string> get(std::string key);
  Answer<std::vector<std::string>> wait(std::vector<std::string> keys, Duration within);
  Answer<Swapped> compare_and_set(std::string key, std::optional<std::string> expected, std::string desired);
  Answer<std::vector<std::string>> gather(std::string prefix, std::uint32_t count, Duration within);
  Answer<void> barrier(std::string name, std::vector<std::uint32_t> ranks, Duration within);
  Answer<void> publish_ids(std::string group, std::vector<std::uint32_t> ranks, std::vector<std::string> ids);
  Answer<std::vector<std::string>> fetch_ids(std::string group, Rank first, std::uint32_t size,
                                             Duration within);
  // How the generation ended, once it has.
  Answer<Verdict> watch(Duration within);
  Answer<void> abort(std::string why, std::vector<std::uint32_t> missing);

  // The worker has left the generation of this client, which goes on with that of the answer. Fails as
  // removed when there is no place for it, now and later.
  Answer<Placed> next(WorkerId worker, Duration within);
  // What the launcher says to the members: a notice above number `seen`, or the generation's end. Fails as
  // timeout when `within` has passed, which costs nothing on the wire: the questions stay open. So nothing
  // but hear() and pulse() may be called on this client afterwards.
  Answer<std::variant<Notice, Verdict>> hear(Rank rank, std::uint32_t seen, Duration within);
  // Does not wait for the answer, which a later hear() passes over.
  Answer<void> pulse(Pulse pulse);

  // From any thread: the call that runs and all later ones fail as disconnected.
  void interrupt();
  [[nodiscard]] std::string local_address() const;

 private:
  struct State;
  explicit Client(std::unique_ptr<State> state);
  template <class Body>
  Answer<std::uint32_t> ask(Body body, Instant deadline);
  template <class Reply, class Body>
  Answer<Reply> call(Body body, Duration within = Duration::zero());

  std::unique_ptr<State> state_;
};

}  // namespace trainrun::rendezvous
