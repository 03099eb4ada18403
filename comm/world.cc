#include "comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "comm/gloo_backend.h"
#include "comm/local_backend.h"
#include "launcher/base/strings.h"
#include "rendezvous/job_key.h"

namespace trainrun::comm {
namespace {

// How long a rank whose operation broke waits for the others to come with the same trouble, and then, when
// its own time had not passed, for the verdict of one whose time had.
constexpr Duration stragglers_wait = seconds(2);
constexpr Duration verdict_wait = seconds(1);
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
  if (--sigpipe_worlds == 0 && sigpipe_was_default) std::signal(SIGPIPE, SIG_DFL);
}

Failure with_operation(Failure failure, const std::string& operation) {
  failure.message = operation + ": " + failure.message;
  return failure;
}

}  // namespace

Outcome<std::unique_ptr<World>> World::init(const Environment& environment, Entry entry) {
  std::unique_ptr<World> world(new World());
  world->op_timeout_ = environment.op_timeout;
  if (environment.rendezvous.empty()) {
    world->world_ = {environment.generation.value, 1, {}, {{0, environment.host, {}, 0, 1}}};
    world->group_ = std::make_unique<Group>(0, 1, std::make_unique<LocalBackend>(), environment.op_timeout,
                                            Group::Explain());
    return world;
  }
  if (auto met = world->meet(environment, std::move(entry)); !met) return tl::unexpected(met.error());
  world->complete_ = true;
  return world;
}

Outcome<void> World::meet(const Environment& environment, Entry entry) {
  const auto deadline = std::chrono::steady_clock::now() + environment.init_timeout;
  const auto left = [&] {
    return std::max<Duration>(deadline - std::chrono::steady_clock::now(), milliseconds(1));
  };
  const auto key = rendezvous::read_key_file(environment.key_file);
  if (!key) return fail(TRC_INVALID, key.error().message);
  client_ = std::move(entry.client);
  if (!client_) {
    auto connected =
        rendezvous::Client::connect(environment.rendezvous, *key, environment.generation, left());
    if (!connected) return tl::unexpected(failure_of(connected.error()));
    client_.emplace(std::move(*connected));
  }
  const auto address = environment.address.empty() ? client_->local_address() : environment.address;
  auto joined =
      client_->join(environment.rank, environment.host, address, left(), environment.worker, entry.elastic);
  if (!joined) return tl::unexpected(failure_of(joined.error()));
  world_ = std::move(joined->world);
  rank_ = joined->rank;
  if (rank_ >= world_.members.size() || world_.members.size() != world_.size)
    return fail(TRC_INTERNAL, "the rendezvous server described a world without this rank");
  if (environment.size && *environment.size != world_.size)
    return fail(TRC_INVALID,
                fmt::format("TRAINRUN_SIZE is {}, but the job has {} ranks", *environment.size, world_.size));
  const bool alone = world_.size == 1;
  if (alone && !entry.elastic) {
    group_ = std::make_unique<Group>(0, 1, std::make_unique<LocalBackend>(), op_timeout_, Group::Explain());
    return {};
  }
  auto ear = rendezvous::Client::connect(environment.rendezvous, *key, environment.generation, left());
  if (!ear) return tl::unexpected(failure_of(ear.error()));
  ignore_sigpipe();
  ignores_sigpipe_ = true;

  std::unique_ptr<GlooBackend> mesh;
  if (!alone) {
    auto listening = GlooBackend::listen(static_cast<int>(rank_), static_cast<int>(world_.size), address);
    if (!listening)
      return fail(TRC_TRANSPORT,
                  fmt::format("cannot listen on {}: {}", quoted(address), listening.error().text));
    mesh = std::move(*listening);
  }
  auto* const connects = mesh.get();
  std::unique_ptr<Backend> backend = std::move(mesh);
  if (alone) backend = std::make_unique<LocalBackend>();
  group_ = std::make_unique<Group>(
      static_cast<int>(rank_), static_cast<int>(world_.size), std::move(backend), op_timeout_,
      [this](const std::string& operation, bool timed_out, const std::string& text) {
        return explain(operation, timed_out, text);
      });
  watcher_ = std::make_unique<Watcher>(
      std::move(*ear), Rank{rank_}, [this] { return group_->progress(); }, [this] { group_->abort(); });
  return alone ? Outcome<void>() : connect(*connects, deadline);
}

Outcome<void> World::connect(GlooBackend& backend, Instant deadline) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  // One blob a rank, and one question for all of them.
  if (const auto put = client_->put(fmt::format("comm/mesh/{}", rank_), backend.blob()); !put)
    return tl::unexpected(failure_of(put.error()));
  const auto blobs =
      client_->gather("comm/mesh/", world_.size, std::max<Duration>(deadline - now(), milliseconds(1)));
  if (!blobs) return tl::unexpected(failure_of(blobs.error()));
  if (const auto meshed = backend.connect(*blobs, deadline); !meshed)
    return tl::unexpected(explain("connecting the ranks", now() >= deadline, meshed.error().text));
  return {};
}

Failure World::explain(const std::string& operation, bool timed_out, const std::string& text) {
  if (const auto verdict = watcher_->verdict()) return with_operation(*verdict, operation);
  const std::lock_guard lock(client_mutex_);
  // Whoever is in trouble comes here. A death is the server's to tell, and answers this at once; else those
  // who do not come are the ones that the operation waits for.
  const auto met = client_->barrier("comm/trouble", {}, stragglers_wait);
  const bool nobody_knows = met || met.error().kind == rendezvous::FailureKind::timeout;
  if (!nobody_knows) {
    // The next generation has begun already: how this one ended is on its way to the watcher.
    if (met.error().kind == rendezvous::FailureKind::stale)
      if (const auto verdict = watcher_->wait_for_verdict(verdict_wait))
        return with_operation(*verdict, operation);
    return with_operation(failure_of(met.error()), operation);
  }

  if (!timed_out)
    if (const auto verdict = watcher_->wait_for_verdict(verdict_wait))
      return with_operation(*verdict, operation);

  Failure failure;
  if (timed_out) {
    failure.status = TRC_TIMEOUT;
    if (!met) failure.missing = met.error().missing;
    std::vector<std::string> names;
    for (const auto rank : failure.missing)
      if (rank < world_.size) names.push_back(fmt::format("rank {} on {}", rank, world_.members[rank].host));
    failure.message = names.empty()
                          ? fmt::format("{} did not end within {}", operation, format_duration(op_timeout_))
                          : fmt::format("{} did not end within {}: {} did not take part", operation,
                                        format_duration(op_timeout_), list_names(names));
  } else {
    failure.status = TRC_TRANSPORT;
    failure.message = fmt::format("{}: a connection to another rank failed: {}", operation, text);
  }
  const auto told = client_->abort(failure.message.substr(0, 1024), failure.missing);
  if (!told && told.error().verdict) return with_operation(failure_of(*told.error().verdict), operation);
  if (failure.missing.size() == 1) {
    failure.culprit = failure.missing.front();
    failure.host = world_.members[failure.missing.front()].host;
  }
  return failure;
}

Outcome<void> World::finalize(Duration wait) {
  if (finalized_) return {};
  finalized_ = true;
  if (!client_) return {};
  const std::lock_guard lock(client_mutex_);
  Outcome<void> outcome;
  // A rank that closed its connections while another still reads from them could cost that one its data.
  if (world_.size > 1 && !group_->broken()) {
    const auto met = client_->barrier("comm/end", {}, wait);
    if (!met) outcome = tl::unexpected(failure_of(met.error()));
  }
  static_cast<void>(client_->leave());  // without the server there is nobody to tell
  if (watcher_) watcher_->stop();
  return outcome;
}

std::optional<rendezvous::Client> World::release(bool together) {
  complete_ = false;
  finalized_ = true;
  if (together && client_ && world_.size > 1 && !group_->broken())
    static_cast<void>(client_->barrier("comm/end", {}, release_wait));
  watcher_.reset();
  group_.reset();
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

World::~World() {
  // A world that was never complete, or is broken, closes without leave: the others must hear of it.
  if (complete_ && !group_->broken()) static_cast<void>(finalize(seconds(1)));
  watcher_.reset();
  group_.reset();
  if (ignores_sigpipe_) restore_sigpipe();
}

}  // namespace trainrun::comm
