#include "launcher/agent/pmix_helper.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/agent/mpi_program.h"
#include "launcher/agent/pmix_image.h"
#include "launcher/agent/process_stat.h"
#include "launcher/base/pipe.h"
#include "launcher/base/strings.h"
#include "launcher/wire/env_pairs.h"

namespace trainrun::agent {
namespace {

constexpr Duration time_limit = seconds(30);              // with a helper that does not answer
constexpr Duration farewell = seconds(1);                 // after the word to go
constexpr Duration for_the_launcher = milliseconds(500);  // to end ranks that can never meet
constexpr Duration dying = seconds(1);                    // for the kernel to end it: milliseconds
constexpr std::size_t most_last_words = 2048;

// Of those that start a job's ranks, the program that says most; all are told.
MpiProgram recognise_all(const wire::OpenJob& order, std::vector<wire::MpiFact>& told) {
  MpiProgram best;
  const auto weight = [](const MpiProgram& one) { return std::pair(one.family, !one.guessed); };
  for (const auto& command : order.commands) {
    auto program = recognise(command.argv, command.directory, order.env);
    told.push_back({program.family, program.guessed, program.missing});
    const bool interpreter = best.interpreter || program.interpreter, hidden = best.hidden || program.hidden;
    if (weight(program) > weight(best)) best = std::move(program);
    best.interpreter = interpreter;
    best.hidden = hidden;
  }
  return best;
}

}  // namespace

PmixHelper::PmixHelper(io::Loop& loop, io::FrameStream& link, Handlers handlers)
    : loop_(loop), link_(link), handlers_(std::move(handlers)), time_limit_(loop), patience_(loop) {}
PmixHelper::~PmixHelper() = default;

void PmixHelper::look_at(const wire::OpenJob& order, wire::Prepared& answer) {
  if (!answer.problems.empty()) return;
  const auto program = recognise_all(order, answer.programs.mpi);
  if (order.pmix == wire::OfferPmix::never) return;
  const bool recognised = program.family == MpiFamily::open_mpi;
  required_ = order.pmix == wire::OfferPmix::always || (recognised && !program.guessed);
  const bool called_so = order.pmix == wire::OfferPmix::interpreters_too && program.interpreter;
  const bool may_load_one = (called_so || program.hidden) && program.family == MpiFamily::none;
  // Others that do not tell pay for no helper, which takes its time to go: for those there is --compat.
  if (!required_ && !recognised && !may_load_one) return;
  if (order.pmix_library.empty()) {
    open_.libraries = pmix_libraries(program, order.env);
    if (open_.libraries.empty() && required_)
      answer.problems.push_back({wire::Problem::Kind::pmix, program.what, ENOENT});
  } else if (::access(order.pmix_library.c_str(), R_OK) != 0) {
    answer.problems.push_back({wire::Problem::Kind::pmix_library, order.pmix_library, errno});
  } else {
    open_.libraries = {order.pmix_library};
  }
  if (open_.libraries.empty()) return;
  const auto first = open_.libraries.front();
  std::erase_if(open_.libraries, [](const auto& path) { return !is_library(path); });
  if (open_.libraries.empty()) {
    if (required_) answer.problems.push_back({wire::Problem::Kind::bad_pmix, first, ENOEXEC});
    return;
  }
  wanted_ = true;
  answer.programs.pmix_library = open_.libraries.front();
  open_.job_id = order.job_id;
  open_.host_name = order.host_name;
  open_.host = order.host;
  env_ = order.env;
  prefix_ = open_mpi_prefix(program);
}

void PmixHelper::begin(const std::string& job_directory, const std::string& memory) {
  open_.directory = job_directory + "/pmix";
  memory_ = memory;
  if (wanted_ && !job_directory.empty()) spawn();
}

void PmixHelper::spawn() {
  const auto failed = [this](int error) { lose("cannot be started: " + errno_text(error)); };
  if (::mkdir(open_.directory.c_str(), 0700) != 0 && errno != EEXIST) return failed(errno);
  if (!image_) image_ = pmix_image_file();
  if (!image_) return failed(errno);
  FdPair ends;
  if (const int error = open_socket_pair(ends); error != 0) return failed(error);
  io::ChildRequest request;
  request.path = fmt::format("/proc/{}/fd/{}", ::getpid(), image_.get());
  request.argv = {"trainrun-pmix"};
  // A server that was built with munge names it to clients that lack it, and shared stores differ between
  // releases: these work everywhere. hwloc must not ask ten X servers for GPUs.
  request.env = {"PMIX_MCA_psec=native", "PMIX_MCA_gds=hash", "HWLOC_COMPONENTS=-gl"};
  for (const auto& [name, value] : env_) {
    std::erase_if(request.env, [&](const auto& word) { return word.starts_with(name + "="); });
    request.env.push_back(name + "=" + value);
  }
  // libpmix looks for settings there, and crashes where it is not.
  if (wire::value_of(env_, "HOME").empty()) request.env.push_back("HOME=" + open_.directory);
  request.directory = "/";
  request.stdin_fd = ends.second.get();
  const auto hear = [this](std::string_view bytes) {
    last_words_ += bytes;
    if (last_words_.size() > most_last_words) last_words_.erase(0, last_words_.size() - most_last_words);
  };
  request.out.heard = request.err.heard = hear;
  auto child = io::Child::start(loop_, request, {[this](const io::ChildEnd& end) { ended(end); }});
  if (!child) return failed(child.error().number);
  child_ = std::move(*child);
  channel_ = std::make_unique<PmixChannel>(
      loop_, std::move(ends.first),
      PmixChannel::Handlers{[this](const wire::Frame& frame) { receive(frame); }, [this] { closed(); }});
  tell(open_);
  time_limit_.arm(io::Loop::now() + time_limit, [this] { child_->end(); });
}

void PmixHelper::receive(const wire::Frame& frame) {
  const auto handle = [&]<class Message>(const Message*, auto&& work) {
    if (auto message = wire::from_frame<Message>(frame)) work(std::move(*message));
  };
  const auto of_world = [&]<class Message>(const Message* kind) {
    handle(kind, [this](Message it) {
      if (world_) perform(world_->received(std::move(it)));
    });
  };
  switch (frame.type) {
    case wire::pmix::Opened::type:
      return handle(static_cast<wire::pmix::Opened*>(nullptr), [this](const auto& it) { opened(it); });
    case wire::pmix::Registered::type:
      return handle(static_cast<wire::pmix::Registered*>(nullptr),
                    [this](const auto& it) { registered(it); });
    case wire::pmix::Reached::type:
      return of_world(static_cast<wire::pmix::Reached*>(nullptr));
    case wire::pmix::AbortAsked::type:
      return of_world(static_cast<wire::pmix::AbortAsked*>(nullptr));
    case wire::pmix::FenceAsked::type:
      return of_world(static_cast<wire::pmix::FenceAsked*>(nullptr));
    case wire::pmix::ModexAsked::type:
      return of_world(static_cast<wire::pmix::ModexAsked*>(nullptr));
    case wire::pmix::Modex::type:
      return of_world(static_cast<wire::pmix::Modex*>(nullptr));
    case wire::pmix::Logged::type:
      return of_world(static_cast<wire::pmix::Logged*>(nullptr));
    case wire::pmix::Refused::type:
      return of_world(static_cast<wire::pmix::Refused*>(nullptr));
    default:
      return;
  }
}

void PmixHelper::opened(const wire::pmix::Opened& answer) {
  if (answer.library.empty()) {
    lose("cannot serve: " + answer.version);
    wanted_ = false;  // nor will it ever
    return;
  }
  if (state_ != State::waiting) time_limit_.disarm();
}

void PmixHelper::world(const wire::World& world) {
  if (!wanted_ || dropped_ || !PmixWorld::is_whole(world)) return;
  patience_.disarm();
  world_.emplace(world);
  variables_.clear();
  held_.clear();
  state_ = State::waiting;
  if (!is_released()) serve();
}

void PmixHelper::serve() {
  if (!child_) spawn();                    // the last one died with its ranks
  ::mkdir(open_.directory.c_str(), 0700);  // the job may be days old by now
  if (!channel_) {
    state_ = State::failed;
    return;
  }
  time_limit_.arm(io::Loop::now() + time_limit, [this] { child_->end(); });
  tell(wire::pmix::Register{fmt::format("{}.g{}", open_.job_id, world_->world().generation.value),
                            open_.directory, world_->world()});
}

void PmixHelper::registered(const wire::pmix::Registered& answer) {
  if (!world_ || answer.generation != world_->world().generation || state_ != State::waiting) return;
  time_limit_.disarm();
  if (!answer.error.empty()) return lose("cannot serve: " + answer.error);
  variables_ = answer.env;
  state_ = State::registered;
  for (const auto& order : std::exchange(held_, {})) start(order);
}

void PmixHelper::start(const wire::Start& order) {
  if (!order.pmix) return handlers_.start(order);
  const bool of_world = wanted_ && world_ && order.generation == world_->world().generation;
  switch (of_world ? state_ : State::failed) {
    case State::waiting:
      held_.push_back(order);
      return;
    case State::failed:
      return required_ ? refuse(order, ELIBACC) : handlers_.start(order);
    case State::registered: {
      auto served = order;
      served.env.insert(served.env.end(), variables_.begin(), variables_.end());
      served.env.emplace_back("PMIX_RANK", std::to_string(order.place.rank.value));
      const auto put = [&](const char* name, const std::string& value) {
        if (!value.empty() && wire::value_of(env_, name).empty() && wire::value_of(order.env, name).empty())
          served.env.emplace_back(name, value);
      };
      // What libpmix forgets of ranks that are killed goes with the job's directories.
      put("OMPI_MCA_btl_vader_backing_directory", memory_);
      put("OMPI_MCA_btl_sm_backing_directory", memory_);
      put("OPAL_PREFIX", prefix_);
      world_->add(order.worker, order.place.rank);
      return handlers_.start(served);
    }
  }
}

void PmixHelper::refuse(const wire::Start& order, int error) {
  const auto stage = error == ECANCELED ? SpawnStage::none : SpawnStage::pmix;
  link_.send(wire::NotStarted{order.worker, stage, error, io::Loop::now().time_since_epoch().count()});
}

void PmixHelper::signal(const wire::Signal& order) {
  if (order.number != SIGTERM && order.number != SIGKILL) return;
  patience_.disarm();
  std::erase_if(held_, [&](const wire::Start& start) {
    const bool meant = order.workers.empty() || std::find(order.workers.begin(), order.workers.end(),
                                                          start.worker) != order.workers.end();
    if (meant) refuse(start, ECANCELED);
    return meant;
  });
}

// Mostly because it dies, and what it served it has closed in the same breath: a rank that ends for that may
// be heard of before the helper's own end, and would be blamed. It is a matter of microseconds, else of the
// kernel.
void PmixHelper::closed() {
  time_limit_.arm(io::Loop::now() + farewell, [this] { child_->end(); });
  child_->reap(dying);
}

void PmixHelper::ended(const io::ChildEnd& end) {
  time_limit_.disarm();
  patience_.disarm();
  const bool released = is_released();
  if (channel_) channel_->read_all();
  channel_.reset();
  auto why = end.by == io::ChildEnd::By::order
                 ? fmt::format("gave no answer for {}", format_duration(time_limit))
                 : (end.status ? end.status->describe() : std::string("has ended"));
  if (const auto words = last_line(last_words_); !words.empty())
    why += fmt::format("; its last words: {}", words);
  last_words_.clear();
  // Not from within its own callback.
  loop_.post([child = std::shared_ptr<io::Child>(std::move(child_))] {});
  if (!released) return lose(why);
  if (!dropped_ && state_ == State::waiting) serve();  // a world that came meanwhile
}

// Nobody serves the present world any more.
void PmixHelper::lose(const std::string& why) {
  if (dropped_ || !wanted_) return;
  const bool served = state_ == State::registered;
  state_ = State::failed;
  const auto reason = fmt::format("the helper for PMIx on {} {}", open_.host_name, why);
  if (served && world_) {
    link_.send(wire::ExchangeLost{world_->world().generation, reason});
  } else if (world_ || required_) {
    link_.send(wire::Note{reason});
  }
  for (const auto& order : std::exchange(held_, {})) start(order);
}

bool PmixHelper::ended_in_mpi(WorkerId worker) {
  // Of several sockets the kernel may close the rank's first. Whose end comes first is told first.
  if (const auto stat = child_ ? process_stat(child_->pid()) : std::nullopt; stat && stat->exiting)
    child_->reap(dying);
  if (channel_) channel_->read_all();
  return world_ && world_->in_mpi(worker);
}

void PmixHelper::left(WorkerId worker) {
  if (world_) perform(world_->left(worker));
}

void PmixHelper::gathered(const wire::Gathered& message) {
  if (world_) perform(world_->gathered(message));
}

void PmixHelper::failed(const wire::GatherFailed& message) {
  if (!world_ || message.generation != world_->world().generation) return;
  perform(world_->failed());
  // Only the end of their server lets those go that wait. Most jobs end them before, without their words.
  if (state_ != State::registered || !world_->is_local()) return;
  patience_.arm(io::Loop::now() + for_the_launcher, [this] {
    state_ = State::failed;
    release();
  });
}

void PmixHelper::died(const wire::RankDied& death) {
  if (world_ && world_->world().generation == death.generation) perform(world_->died(death.rank));
}

void PmixHelper::asked(const wire::Ask& question) {
  if (world_ && channel_) return perform(world_->asked(question));
  link_.send(wire::Answer{question.generation, question.question, false, {}});
}

void PmixHelper::answered(const wire::Answer& answer) {
  if (world_) perform(world_->answered(answer));
}

void PmixHelper::perform(PmixWorld::Effects effects) {
  for (const auto& effect : effects) std::visit([this](const auto& it) { perform(it); }, effect);
}

void PmixHelper::perform(const PmixWorld::Abort& abort) {
  link_.send(wire::Aborted{abort.worker, abort.code, io::Loop::now().time_since_epoch().count()});
}

void PmixHelper::perform(const PmixWorld::Print& output) {
  handlers_.print(output.worker, output.stream, output.text);
}

bool PmixHelper::take(pid_t child) {
  if (!is_helper(child)) return false;
  child_->reap();
  return true;
}

void PmixHelper::drop() {
  if (child_) child_->reap();  // one that died with its ranks, who were heard of first
  dropped_ = true;
  held_.clear();
  patience_.disarm();
  release();
}

void PmixHelper::release() {
  channel_.reset();  // it takes this as the word to go, and clears up
  if (child_) time_limit_.arm(io::Loop::now() + farewell, [this] { child_->end(); });
}

}  // namespace trainrun::agent
