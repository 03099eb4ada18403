#include "launcher/agent/preloader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include "launcher/agent/process_stat.h"
#include "launcher/agent/worker_files.h"
#include "launcher/base/pipe.h"
#include "launcher/base/strings.h"
#include "launcher/io/spawn.h"
#include "launcher/wire/env_pairs.h"

namespace trainrun::agent {
namespace {

// For a fork, and for what imports have left to be cleared up at the end.
constexpr Duration forking = seconds(10), farewell = seconds(2);
constexpr int most_deaths = 3;
constexpr std::size_t most_lines = 20;
constexpr std::string_view go_on = "+";

}  // namespace

// A rank that waits at its gate, or is about to be forked.
struct Preloader::Sent {
  wire::Start order;
  WorkerFiles files;
  Fd gate;
};

// One command line of the job and its zygote.
struct Preloader::Line {
  Line(io::Loop& loop, wire::Preload::Program given) : program(std::move(given)), time_limit(loop) {}
  enum class State { importing, ready, forking, off };
  wire::Preload::Program program;
  std::vector<std::string> words;  // of the zygote's environment, as packages see it
  State state = State::importing;
  std::unique_ptr<Zygote> zygote, leaving;  // the latter has imported what has changed since
  int number = 0;                           // of the zygote
  std::deque<wire::Start> waiting;
  std::vector<Sent> sent;
  io::Timer time_limit;
  bool late = false;  // its imports
  int deaths = 0;
  bool told_difference = false;

  void end() const {
    if (zygote) zygote->kill();
  }
};

Preloader::Preloader(io::Loop& loop, io::FrameStream& link, Supervisor& supervisor)
    : loop_(loop), link_(link), supervisor_(supervisor) {}
Preloader::~Preloader() = default;

void Preloader::note(const std::string& text) { link_.send(wire::Note{"--preload: " + text}); }

void Preloader::begin(const wire::Preload& preload, const std::string& job_directory) {
  if (preload.programs.empty()) return;
  automatic_ = preload.automatic;
  modules_ = fmt::format("{}", fmt::join(preload.modules, ","));
  time_limit_ = milliseconds(preload.import_limit_ms);
  folder_ = job_directory + "/preload";
  key_file_ = job_directory + "/key";
  const auto script = folder_ + "/sitecustomize.py";
  const bool made = !job_directory.empty() && ::mkdir(folder_.c_str(), 0700) == 0;
  Fd file(made ? ::open(script.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1);
  if (!file || !write_all(file.get(), zygote_script()))
    return note(fmt::format("cannot write {}: {}; ranks are started without it", script, errno_text(errno)));
  for (const auto& program : preload.programs) {
    if (program.interpreter >= program.command || program.command >= program.argv.size()) continue;
    lines_.push_back(std::make_unique<Line>(loop_, program));
    spawn(*lines_.back());
  }
}

void Preloader::spawn(Line& line) {
  line.state = Line::State::importing;
  const auto& program = line.program;
  line.words = supervisor_.environment_with(program.env);
  wire::EnvPairs env;
  for (const auto& word : line.words) {
    const auto equals = word.find('=');
    env.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  const auto found =
      io::find_program(program.argv[program.interpreter], wire::value_of(env, "PATH"), program.directory);
  if (found.error != 0)
    return refuse(line, fmt::format("{}: {}", program.argv[program.interpreter], errno_text(found.error)));
  if (bytes_of(line.words) > zygote_pad) return refuse(line, "the environment is too large");
  io::ChildRequest request;
  request.path = found.path;
  request.argv = zygote_line(program);
  request.directory = program.directory;
  request.keep_hangup_ignored = supervisor_.keeps_hangup_ignored();
  request.farewell = milliseconds(500);
  const auto python_path = wire::value_of(env, "PYTHONPATH");
  for (const auto& word : line.words)
    if (!word.starts_with("PYTHONPATH=")) request.env.push_back(word);
  request.env.push_back("PYTHONPATH=" + folder_ + (python_path.empty() ? "" : ":" + python_path));
  request.env.push_back("TRAINRUN_KEY_FILE=" + key_file_);  // a mark for those who clear up
  request.env.push_back(
      fmt::format("TRAINRUN_PRELOAD=1 {} {:d}", program.command - program.interpreter, automatic_));
  request.env.push_back("TRAINRUN_PRELOAD_MODULES=" + modules_);
  request.env.push_back("TRAINRUN_PRELOAD_PATH=" + found.path);
  request.env.push_back("TRAINRUN_PRELOAD_PYTHONPATH=" + python_path);
  request.env.push_back("TRAINRUN_PRELOAD_PAD=" + std::string(zygote_pad, '.'));
  std::string error;
  line.zygote = Zygote::start(loop_, request,
                              {[this, &line](const auto& fields) { said(line, fields); },
                               [this, &line, number = ++line.number](const std::string& why) {
                                 number == line.number ? ended(line, why) : line.leaving.reset();
                               }},
                              error);
  if (!line.zygote) return refuse(line, error);
  line.late = false;
  line.time_limit.arm(io::Loop::now() + time_limit_, [&line] {
    line.late = true;
    line.end();
  });
}

void Preloader::said(Line& line, const std::vector<std::string>& fields) {
  const auto& what = fields.front();
  const auto text = fields.size() > 1 ? fields[1] : std::string();
  if (what == "note") return note(text);
  if (what == "refused" && line.state == Line::State::importing) return refuse(line, text);
  if (what == "ready" && line.state == Line::State::importing) {
    line.time_limit.disarm();
    line.state = Line::State::ready;
    // Ranks that are started plainly would have printed it each.
    const auto output = line.zygote->take_output();
    const auto lines = split(trim(output), '\n');
    for (std::size_t i = 0; i < lines.size() && i < most_lines && !told_output_; ++i)
      if (!lines[i].empty()) note(std::string(lines[i]));
    told_output_ = true;
    return give(line);
  }
  if (what == "forked" && line.state == Line::State::forking) return forked(line, fields);
  if (what == "stale" && line.state == Line::State::forking) return stale(line);
}

void Preloader::start(const wire::Start& order) {
  if (lines_.empty() || dropped_) return supervisor_.start(order);
  for (const auto& line : lines_) {
    const auto words = with_words_of_env(line->program, supervisor_.environment_for(order));
    if (!is_of(line->program, order, words)) continue;
    if (line->state == Line::State::off) return supervisor_.start(order);
    auto why = differing_variable(line->words, words);
    if (!why && bytes_of(words) > zygote_pad) why = "the size of the environment";
    if (why) {
      if (!std::exchange(line->told_difference, true))
        note(fmt::format("{} is not the same for all ranks; those are started without it", *why));
      return supervisor_.start(order);
    }
    line->waiting.push_back(order);
    return give(*line);
  }
  supervisor_.start(order);
}

// As many at once as go into the socket; the others when these have been forked.
void Preloader::give(Line& line) {
  if (line.state != Line::State::ready || line.waiting.empty()) return;
  std::vector<std::pair<wire::Start, std::vector<std::string>>> batch;
  std::size_t bytes = 0;
  while (!line.waiting.empty() && batch.size() < most_at_once) {
    auto words = with_words_of_env(line.program, supervisor_.environment_for(line.waiting.front()));
    bytes += bytes_of(words);
    if (!batch.empty() && bytes > most_bytes_at_once) break;
    batch.emplace_back(std::move(line.waiting.front()), std::move(words));
    line.waiting.pop_front();
  }
  line.state = Line::State::forking;
  line.time_limit.arm(io::Loop::now() + forking, [&line] { line.end(); });
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (give_one(line, batch[i].first, batch[i].second, i + 1 < batch.size())) continue;
    // It would wait for the rest for ever. Its end, which follows, starts all of them plainly.
    for (; i < batch.size(); ++i) line.waiting.push_back(std::move(batch[i].first));
    return line.zygote->kill();
  }
}

bool Preloader::give_one(Line& line, const wire::Start& order, const std::vector<std::string>& words,
                         bool more) {
  Sent sent{order, {}, {}};
  FdPair gate;
  if (open_worker_files(order, sent.files) != 0 || open_pipe(gate) != 0) return false;
  std::vector<int> fds = {sent.files.stdin_fd(), sent.files.out.second.get(), sent.files.err.second.get(),
                          gate.first.get()};
  if (sent.files.pmi.second) fds.push_back(sent.files.pmi.second.get());
  std::string packet =
      fmt::format("rank{0}{1}{0}{2:d}{0}{3}{0}{4}{0}{5}{0}{6:d}", '\0', order.worker.value, more,
                  order.generation.value, order.directory, fmt::join(order.cpus, ","), order.batch);
  for (const auto& word : words) packet.append(1, '\0').append(word);
  if (!line.zygote->send(packet, fds)) return false;
  sent.gate = std::move(gate.second);
  for (auto* pair : {&sent.files.out, &sent.files.err, &sent.files.pmi}) pair->second.reset();
  sent.files.stdin_read.reset();
  line.sent.push_back(std::move(sent));
  return true;
}

void Preloader::forked(Line& line, const std::vector<std::string>& fields) {
  line.time_limit.disarm();
  line.state = Line::State::ready;
  auto sent = std::exchange(line.sent, {});
  for (std::size_t i = 1; i < fields.size(); ++i) {
    const auto rank = parse_forked(fields[i]);
    const auto it = !rank ? sent.end() : std::find_if(sent.begin(), sent.end(), [&](const Sent& one) {
      return one.order.worker == rank->worker;
    });
    if (it == sent.end()) continue;  // cancelled: its gate is closed
    // Ours by now, and the leader of a session: what befalls the zygote's no longer concerns it.
    const auto stat = process_stat(rank->pid);
    if (!stat || !stat->lives() || stat->parent != ::getpid() || stat->session != rank->pid) continue;
    if (::write(it->gate.get(), go_on.data(), go_on.size()) != static_cast<ssize_t>(go_on.size())) continue;
    supervisor_.adopt(it->order, rank->pid, std::move(it->files));
    sent.erase(it);
  }
  for (auto& one : sent) {
    one.gate.reset();
    one.files = {};
    supervisor_.start(one.order);
  }
  give(line);
}

void Preloader::stale(Line& line) {
  note("a package has changed and is imported anew");
  for (auto it = line.sent.rbegin(); it != line.sent.rend(); ++it)
    line.waiting.push_front(std::move(it->order));
  line.sent.clear();
  line.leaving = std::move(line.zygote);
  spawn(line);
}

void Preloader::ended(Line& line, const std::string& why) {
  line.zygote.reset();
  line.time_limit.disarm();
  if (dropped_ || line.state == Line::State::off) return;
  if (line.state == Line::State::importing && line.late)
    return refuse(
        line, fmt::format("the imports took longer than {} (--start-timeout)", format_duration(time_limit_)));
  if (line.state == Line::State::importing) return refuse(line, "the imports failed: " + why);
  const bool again = ++line.deaths < most_deaths;
  note(fmt::format("the process that ranks are forked from ended: {}; {}", why,
                   again ? "it is started again" : "ranks are started without it from now on"));
  start_plainly(line);
  again ? spawn(line) : void(line.state = Line::State::off);
}

void Preloader::refuse(Line& line, const std::string& why) {
  note(why + "; ranks are started without it");
  line.state = Line::State::off;
  if (line.zygote) line.time_limit.arm(io::Loop::now() + farewell, [&line] { line.end(); });
  start_plainly(line);
}

void Preloader::start_plainly(Line& line) {
  for (auto& one : std::exchange(line.sent, {})) {
    one.gate.reset();
    one.files = {};
    supervisor_.start(one.order);
  }
  for (const auto& order : std::exchange(line.waiting, {})) supervisor_.start(order);
}

void Preloader::cancelled(const wire::Start& order) {
  link_.send(wire::NotStarted{order.worker, SpawnStage::none, ECANCELED,
                              io::Loop::now().time_since_epoch().count()});
}

void Preloader::signal(const wire::Signal& order) {
  if (!order.ending) return;
  const auto meant = [&](const wire::Start& start) {
    const bool named = order.workers.empty() || std::find(order.workers.begin(), order.workers.end(),
                                                          start.worker) != order.workers.end();
    if (named) cancelled(start);
    return named;
  };
  for (const auto& line : lines_) {
    std::erase_if(line->waiting, meant);
    std::erase_if(line->sent, [&](const Sent& one) { return meant(one.order); });
  }
}

bool Preloader::is_zygote(pid_t pid) const {
  return std::any_of(lines_.begin(), lines_.end(), [pid](const auto& line) {
    return (line->zygote && line->zygote->pid() == pid) || (line->leaving && line->leaving->pid() == pid);
  });
}

bool Preloader::is_of_zygote(pid_t pid) const {
  if (lines_.empty()) return false;
  const auto stat = process_stat(pid);
  return is_zygote(pid) || (stat && is_zygote(stat->session));
}

bool Preloader::take(pid_t child) {
  for (const auto& line : lines_) {
    for (const auto& zygote : {line->zygote.get(), line->leaving.get()}) {
      if (zygote == nullptr || zygote->pid() != child) continue;
      zygote->reap();
      return true;
    }
  }
  return false;
}

void Preloader::drop() {
  dropped_ = true;
  for (const auto& line : lines_) {
    line->waiting.clear();
    line->sent.clear();
    if (line->leaving) line->leaving->kill();
    if (!line->zygote) continue;
    const bool imports = line->state == Line::State::importing;
    line->zygote->close();
    imports ? line->zygote->kill()
            : line->time_limit.arm(io::Loop::now() + farewell, [it = line.get()] { it->end(); });
  }
}

}  // namespace trainrun::agent
