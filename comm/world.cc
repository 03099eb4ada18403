#include "comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "comm/backends/factory.h"
#include "comm/backends/local_backend.h"
#include "comm/backends/nccl/communicator.h"
#include "launcher/base/strings.h"
#include "rendezvous/job_key.h"
#include "rendezvous/protocol.h"

namespace trainrun::comm {
namespace {

// How long a rank whose operation broke waits for the others to come with the same trouble, and then, when
// its own time had not passed, for the verdict of one whose time had. When its time had passed less is
// enough: ranks that came to the operation later have said so by then (Watcher).
constexpr Duration stragglers_wait = seconds(2), late_wait = milliseconds(250);
constexpr Duration verdict_wait = seconds(1);
// What the end of a world that was not finalized may cost: for the other ranks to come, and for the server.
constexpr Duration farewell_wait = milliseconds(700);
constexpr Duration farewell_slack = milliseconds(300);
// How long a rank that finalizes waits for others before it takes them to be in an operation, and by what
// those that come later know that.
constexpr Duration agree_after = seconds(1);
constexpr const char* agreeing_key = "comm/end/agreeing";
// For ranks that all go on together to have read each other's last bytes.
constexpr Duration release_wait = seconds(10);

// Gloo writes to sockets in ways that raise SIGPIPE when a peer dies. Counted over the worlds of this
// process.
std::mutex sigpipe_mutex;
int sigpipe_worlds = 0;
bool sigpipe_was_default = false;

void ignore_sigpipe() {
  const std::lock_guard lock(sigpipe_mutex);
  if (sigpipe_worlds++ > 0) return;
  struct sigaction now {};
  sigpipe_was_default = ::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
  if (sigpipe_was_default) std::signal(SIGPIPE, SIG_IGN);
}

void restore_sigpipe() {
  const std::lock_guard lock(sigpipe_mutex);
  if (--sigpipe_worlds > 0 || !sigpipe_was_default) return;
  struct sigaction now {};
  const bool still_ours = ::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
  if (still_ours) std::signal(SIGPIPE, SIG_DFL);
}

// Words that are about the operation already may be another rank's.
Failure with_operation(Failure failure, const std::string& operation) {
  if (!failure.message.starts_with(operation)) failure.message = operation + ": " + failure.message;
  return failure;
}

}  // namespace

Outcome<World::Owner> World::init(const Environment& environment, Entry entry) {
  if (auto stuck = nccl::settle()) return fail(TRC_RESTART_REQUIRED, std::move(*stuck));
  Owner world(new World());
  world->op_timeout_ = environment.op_timeout;
  world->environment_ = environment;
  if (environment.rendezvous.empty()) {
    world->world_ = {environment.generation.value, 1, {}, {{0, environment.host, {}, 0, 1}}};
    world->group_ = &world->groups_.add(std::make_unique<Group>(0, 1, std::make_unique<LocalBackend>(),
                                                                environment.op_timeout, Group::Explain()));
    return world;
  }
  if (auto met = world->meet(environment, std::move(entry)); !met) return tl::unexpected(met.error());
  world->complete_ = true;
  return world;
}

Outcome<void> World::meet(const Environment& environment, Entry entry) {
  auto deadline = std::chrono::steady_clock::now() + environment.init_timeout;
  const auto left = [&] {
    return std::max<Duration>(deadline - std::chrono::steady_clock::now(), milliseconds(1));
  };
  const auto key = rendezvous::read_key_file(environment.key_file);
  if (!key) return fail(TRC_INVALID, key.error().message);
  // Who comes from an earlier generation has what must not be lost, and waits as long as the launcher does,
  // which knows whether those who are still away are loading or have died, and limits it.
  const bool launcher_decides = entry.client.has_value();
  client_ = std::move(entry.client);
  if (!client_) {
    auto connected =
        rendezvous::Client::connect(environment.rendezvous, *key, environment.generation, left());
    if (!connected) return tl::unexpected(failure_of(connected.error()));
    client_.emplace(std::move(*connected));
  }
  const auto address = environment.address.empty() ? client_->local_address() : environment.address;
  const auto join = [&] {
    return client_->join(environment.rank, environment.host, address,
                         launcher_decides ? milliseconds(rendezvous::max_wait_ms) : left(),
                         environment.worker, entry.elastic);
  };
  auto joined = join();
  while (launcher_decides && !joined && joined.error().kind == rendezvous::FailureKind::timeout)
    joined = join();
  if (!joined) return tl::unexpected(failure_of(joined.error()));
  if (launcher_decides) deadline = std::chrono::steady_clock::now() + environment.init_timeout;
  rank_ = joined->self.rank;
  if (rank_ >= joined->size)
    return fail(TRC_INTERNAL, "the rendezvous server described a world without this rank");
  if (environment.size && *environment.size != joined->size)
    return fail(TRC_INVALID, fmt::format("TRAINRUN_SIZE is {}, but the job has {} ranks", *environment.size,
                                         joined->size));
  // A mesh needs them all.
  auto world = client_->world(*joined);
  if (!world) return tl::unexpected(failure_of(world.error()));
  world_ = std::move(*world);
  const bool alone = world_.size == 1;
  if (alone && !entry.elastic) {
    group_ = &groups_.add(
        std::make_unique<Group>(0, 1, std::make_unique<LocalBackend>(), op_timeout_, Group::Explain()));
    return {};
  }
  environment_.generation = Generation{world_.generation};
  address_ = address;
  auto ear = connect(left());
  if (!ear) return tl::unexpected(ear.error());
  ignore_sigpipe();
  ignores_sigpipe_ = true;

  Draft draft;
  if (alone) {
    draft.backend = std::make_unique<LocalBackend>();
  } else {
    auto made = make_backend({*client_, world_.members, rank_, "comm/", address, environment.backend,
                              environment.key_file, deadline});
    if (!made) return tl::unexpected(made.error());
    draft = std::move(*made);
  }
  group_ = &groups_.add(std::make_unique<Group>(
      static_cast<int>(rank_), static_cast<int>(world_.size), std::move(draft.backend), op_timeout_,
      [this](const std::string& operation, bool timed_out, const std::string& text) {
        return explain(operation, timed_out, text);
      },
      links({}, "all")));
  watcher_ = std::make_unique<Watcher>(std::move(*ear), world_, Rank{rank_}, groups_);
  if (!draft.connect) return {};
  constexpr const char* connecting = "connecting the ranks";
  return group_->connect(draft.connect, deadline, [&](const Outcome<Moved>& failed) {
    if (failed) return explain_connection(connecting, failed->error(), deadline);
    const auto& failure = failed.error();
    return failure.status == TRC_TIMEOUT ? explain_absence(connecting, failure.missing, failure.message)
                                         : failure;
  });
}

Outcome<rendezvous::Client> World::connect(Duration within) const {
  // Of a world that is over the server may be gone, too.
  const auto verdict = [this] { return watcher_ ? watcher_->verdict() : std::nullopt; };
  if (auto over = verdict()) return tl::unexpected(std::move(*over));
  const auto key = rendezvous::read_key_file(environment_.key_file);
  if (!key) return fail(TRC_INVALID, key.error().message);
  auto connected =
      rendezvous::Client::connect(environment_.rendezvous, *key, environment_.generation, within);
  if (!connected) return tl::unexpected(verdict().value_or(failure_of(connected.error())));
  return std::move(*connected);
}

Failure World::explain(const std::string& operation, bool timed_out, const std::string& text,
                       const std::vector<std::uint32_t>& among, const std::string& name) {
  {
    const std::lock_guard lock(mismatch_mutex_);
    if (mismatch_) return with_operation(*mismatch_, operation);
  }
  if (const auto verdict = watcher_->verdict()) return with_operation(*verdict, operation);
  const std::lock_guard lock(client_mutex_);
  // Whoever is in trouble comes here. A death is the server's to tell, and answers this at once; else those
  // who do not come are the ones that the operation waits for, also when they wait in one of another group.
  const auto met = timed_out ? client_->barrier(fmt::format("comm/group/{}/late", name), among, late_wait)
                             : client_->barrier("comm/trouble", {}, stragglers_wait);
  const bool nobody_knows = met || met.error().kind == rendezvous::FailureKind::timeout;
  if (!nobody_knows) {
    // The next generation has begun already: how this one ended is on its way to the watcher.
    if (met.error().kind == rendezvous::FailureKind::stale)
      if (const auto verdict = watcher_->wait_for_verdict(verdict_wait))
        return with_operation(*verdict, operation);
    if (met.error().kind == rendezvous::FailureKind::left && met.error().missing.size() == 1)
      return with_operation(failure_of_leaver(world_.members[met.error().missing.front()]), operation);
    return with_operation(failure_of(met.error()), operation);
  }

  if (!timed_out)
    if (const auto verdict = watcher_->wait_for_verdict(verdict_wait))
      return with_operation(*verdict, operation);

  if (timed_out)
    return tell(late(operation, met ? std::vector<std::uint32_t>() : met.error().missing, text), operation);
  Failure failure;
  failure.status = TRC_TRANSPORT;
  failure.message = fmt::format("{}: a connection to another rank failed: {}", operation, text);
  return tell(std::move(failure), operation);
}

Failure World::explain_absence(const std::string& operation, std::vector<std::uint32_t> missing,
                               const std::string& text) {
  if (const auto verdict = watcher_->verdict()) return with_operation(*verdict, operation);
  const std::lock_guard lock(client_mutex_);
  return tell(late(operation, std::move(missing), text), operation);
}

Failure World::explain_connection(const std::string& operation, const Broken& broken, Deadline deadline,
                                  const std::vector<std::uint32_t>& among, const std::string& name) {
  if (std::chrono::steady_clock::now() < deadline) return explain(operation, false, broken.text, among, name);
  if (!broken.with) return explain(operation, true, broken.text, among, name);
  return explain_absence(operation, {among.empty() ? *broken.with : among.at(*broken.with)}, broken.text);
}

Failure World::late(const std::string& operation, std::vector<std::uint32_t> missing,
                    const std::string& text) {
  Failure failure;
  failure.status = TRC_TIMEOUT;
  failure.message = fmt::format("{} did not end within {}{}{}", operation,
                                format_duration(complete_ ? op_timeout_ : environment_.init_timeout),
                                text.empty() ? "" : ", with ", text);
  failure.missing = std::move(missing);
  return failure;
}

Failure World::tell(Failure failure, const std::string& operation) {
  const auto told = client_->abort(failure.message.substr(0, 1024), failure.missing);
  if (!told && told.error().verdict) return with_operation(failure_of(*told.error().verdict), operation);
  // Some of the missing may wait in the operation, for a time of their own that began later: the server
  // knows.
  if (told && failure.status == TRC_TIMEOUT)
    if (const auto verdict = watcher_->wait_for_verdict(verdict_wait))
      return with_operation(*verdict, operation);
  return failure;
}

Failure World::errand_failure(const std::string& operation, Failure failure) const {
  if (const auto verdict = watcher_->verdict()) return with_operation(*verdict, operation);
  return failure.of_world ? with_operation(std::move(failure), operation) : failure;
}

Outcome<void> World::finalize(Duration wait) {
  if (finalized_.exchange(true) || !client_) return {};
  std::unique_lock lock(client_mutex_);
  if (auto failure = groups_.why_broken()) {
    // There is nobody to meet; and who finalizes may not have waited for what has failed.
    static_cast<void>(part({}));
    return tl::unexpected(std::move(*failure));
  }
  const bool others_agree = world_.size > 1 && client_->get(agreeing_key).has_value();
  auto met = meet_at_end(others_agree ? Duration::zero() : std::min(wait, agree_after));
  if (!met && met.error().status == TRC_TIMEOUT) {
    // Those that do not come may be in an operation that waits for this rank: all hear that they disagree
    // then, and nobody waits for a time to pass. Not at once, since ranks that only free their world, which
    // may not break another's operation, meet the others as well.
    static_cast<void>(client_->put(agreeing_key, {}));
    lock.unlock();
    met = group_->finalize();
    lock.lock();
    // Who has left by then, as one does that only frees its world, needs nobody and is needed by nobody.
    const bool over = !met && met.error().status == TRC_ABORTED && met.error().how == has_left;
    met = met ? meet_at_end(wait) : over ? Outcome<void>() : met;
  }
  return part(met);
}

// A rank that closed its connections while another still reads from them could cost that one its data.
Outcome<void> World::meet_at_end(Duration wait) {
  if (world_.size == 1) return {};
  if (auto failure = groups_.why_broken()) return tl::unexpected(std::move(*failure));
  const auto met = client_->barrier("comm/end", {}, wait);
  if (!met) return tl::unexpected(failure_of(met.error()));
  return {};
}

// With the client. Without the server there is nobody to tell.
Outcome<void> World::part(const Outcome<void>& met) {
  if (!met) {
    static_cast<void>(client_->leave_at_close());
    return met;
  }
  met_at_end_ = true;
  static_cast<void>(client_->leave());
  groups_.close();
  if (watcher_ && !groups_.progress().in_operation()) watcher_->stop();
  return {};
}

void World::give_up() {
  if (!client_ || world_.size == 1 || groups_.broken() || !watcher_ || watcher_->verdict()) return;
  const std::lock_guard lock(client_mutex_);
  static_cast<void>(client_->abort("the program gave up this world", {}));
}

std::optional<rendezvous::Client> World::release(bool together) {
  complete_ = false;
  finalized_ = true;
  if (together && client_ && world_.size > 1 && !groups_.broken())
    static_cast<void>(client_->barrier("comm/end", {}, release_wait));
  watcher_.reset();
  groups_.clear();
  return std::exchange(client_, std::nullopt);
}

Outcome<void> World::check_host_updates() {
  const auto notices = watcher_ ? watcher_->notices() : Watcher::Notices();
  std::uint8_t changes = notices.change ? 1 : 0;
  if (auto asked = group_->allreduce(&changes, &changes, 1, TRC_U8, TRC_MAX); !asked) return asked;
  if (changes == 0) return {};
  return fail(TRC_HOSTS_UPDATED,
              notices.text.empty() ? std::string("the hosts of the job will change") : notices.text);
}

// A world that was never complete, or is over, closes without leave: the others must hear of it, or have. One
// that is over by a mismatch is left.
bool World::parted() {
  if (!complete_ || !client_) return true;
  // All of that group have heard of it, and end by it: that is the cause, not a connection that closes
  // before.
  const bool disagreed = groups_.disagreed();
  if (groups_.broken() && !disagreed) return true;
  if (disagreed || groups_.progress().in_operation()) {  // of another thread, which is not waited for
    if (const std::unique_lock lock(client_mutex_, std::try_to_lock); lock)
      static_cast<void>(client_->leave_at_close());
    return disagreed;
  }
  if (finalized_.exchange(true)) return met_at_end_;
  const std::lock_guard lock(client_mutex_);
  client_->hurry(farewell_slack);
  static_cast<void>(client_->leave_at_close());  // first, so that it is there whatever becomes of the wait
  const auto met = part(meet_at_end(farewell_wait));
  return met || (watcher_ && watcher_->verdict());
}

void World::Close::operator()(World* world) const {
  if (world->parted() && !in_use) {
    delete world;
    return;
  }
  static std::mutex mutex;
  static std::vector<World*>* const kept = new std::vector<World*>();  // reachable, for leak checkers
  const std::lock_guard lock(mutex);
  kept->push_back(world);
}

World::~World() {
  watcher_.reset();
  groups_.clear();
  if (ignores_sigpipe_) restore_sigpipe();
}

}  // namespace trainrun::comm
