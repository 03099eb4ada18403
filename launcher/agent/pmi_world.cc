#include "launcher/agent/pmi_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "launcher/agent/mpi_words.h"
#include "launcher/base/strings.h"
#include "launcher/wire/codec.h"

namespace trainrun::agent {
namespace {

// One host's part of a barrier.
struct Puts {
  std::vector<std::pair<std::string, std::string>> puts;
  template <class V>
  void fields(V& v) {
    v("puts", puts);
  }
};

constexpr std::size_t around_a_put = 20;  // the lengths of key and value, and then some

std::string encoded(Puts puts) {
  std::string bytes;
  wire::Encoder encoder(bytes);
  puts.fields(encoder);
  return bytes;
}

std::optional<Puts> decoded(std::string_view bytes) {
  Puts puts;
  wire::Decoder decoder(bytes);
  puts.fields(decoder);
  if (!decoder.done()) return std::nullopt;
  return puts;
}

// "-1" and the like too: exit codes may be any int.
int number(std::string_view text, int otherwise) {
  const bool negative = text.starts_with('-');
  const auto value = parse_unsigned<std::uint32_t>(negative ? text.substr(1) : text);
  constexpr std::uint32_t most = std::numeric_limits<int>::max();
  if (!value || *value > most) return otherwise;
  return negative ? -static_cast<int>(*value) : static_cast<int>(*value);
}

}  // namespace

PmiWorld::PmiWorld(const std::string& job_id, Generation generation)
    : name_(fmt::format("{}.g{}", job_id, generation.value)), generation_(generation) {}

void PmiWorld::add(WorkerId worker, const wire::Place& place) { clients_[worker].place = place; }

bool PmiWorld::in_mpi(WorkerId worker) const {
  const auto it = clients_.find(worker);
  return it != clients_.end() && it->second.begun && !it->second.finalized;
}

bool PmiWorld::has_spoken(WorkerId worker) const {
  const auto it = clients_.find(worker);
  return it != clients_.end() && it->second.begun;
}

PmiWorld::Effects PmiWorld::received(WorkerId worker, std::string_view bytes) {
  const auto it = clients_.find(worker);
  if (it == clients_.end()) return {};
  auto& client = it->second;
  while (!bytes.empty() && !client.hung_up) {
    const auto end = bytes.find('\n');
    const auto piece = bytes.substr(0, end);
    if (client.line.size() + piece.size() > pmi1::longest_line) {
      no_pmi(worker, client);
      break;
    }
    client.line += piece;
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    const auto line = std::exchange(client.line, {});
    client.in_block ? speak_in_block(worker, client, line) : speak(worker, client, line);
  }
  return std::exchange(effects_, {});
}

void PmiWorld::speak(WorkerId worker, Client& client, std::string_view text) {
  const auto line = pmi1::Line::parse(text);
  if (!line) return no_pmi(worker, client);
  const auto command = line->command();
  if (line->begins_block()) {
    client.in_block = true;
    client.spawns_left = 1;
  } else if (command == "init") {
    init(worker, client, *line);
  } else if (command == "get_maxes") {
    reply(worker, fmt::format("cmd=maxes rc=0 kvsname_max={} keylen_max={} vallen_max={}\n",
                              pmi1::longest_name, pmi1::longest_key, pmi1::longest_value));
  } else if (command == "get_appnum") {
    reply(worker, fmt::format("cmd=appnum rc=0 appnum={}\n", client.place.program));
  } else if (command == "get_my_kvsname") {
    reply(worker, fmt::format("cmd=my_kvsname rc=0 kvsname={}\n", name_));
  } else if (command == "get_universe_size") {
    reply(worker, fmt::format("cmd=universe_size rc=0 size={}\n", client.place.size));
  } else if (command == "put") {
    put(worker, *line);
  } else if (command == "get") {
    get(worker, client, *line);
  } else if (command == "barrier_in") {
    enter_barrier(worker, client, *line);
  } else if (command == "finalize") {
    client.finalized = true;
    reply(worker, "cmd=finalize_ack rc=0\n");
  } else if (command == "abort") {
    effects_.emplace_back(Abort{worker, number(line->get("exitcode"), 1)});
  } else if (command == "publish_name") {
    refuse(worker, "publish_result", "MPI_Publish_name");
  } else if (command == "unpublish_name") {
    refuse(worker, "unpublish_result", "MPI_Unpublish_name");
  } else if (command == "lookup_name") {
    refuse(worker, "lookup_result", "MPI_Lookup_name");
  } else {  // a client waits for an answer, whatever it asked
    refuse(worker, pmi1::as_value(command) + "_result", "PMI's " + quoted(command, 40));
  }
}

// Each program to be spawned is a block of lines from `mcmd=spawn` to `endcmd`; the answer comes after the
// last.
void PmiWorld::speak_in_block(WorkerId worker, Client& client, std::string_view text) {
  if (text.starts_with("totspawns=")) {
    client.spawns_left = std::max(client.spawns_left, number(text.substr(text.find('=') + 1), 1));
  } else if (text.starts_with("spawnssofar=")) {
    const int later = std::max(number(text.substr(text.find('=') + 1), 1), 1) - 1;
    client.spawns_left = std::max(client.spawns_left - later, 1);
  } else if (text == "endcmd") {
    client.in_block = false;
    if (client.spawns_left <= 1) refuse(worker, "spawn_result", "MPI_Comm_spawn");
  }
}

void PmiWorld::init(WorkerId worker, Client& client, const pmi1::Line& line) {
  if (line.get("pmi_version") != "1") {
    tell_once(
        fmt::format("rank {} speaks PMI-{}, and trainrun offers PMI-1: set MPIR_CVAR_PMI_VERSION=1, or "
                    "use an MPI library that has PMI-1",
                    client.place.rank.value, pmi1::as_value(line.get("pmi_version").substr(0, 8))));
    return reply(worker, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
  }
  client.begun = true;
  client.finalized = false;  // the next program of a rank that is a script
  reply(worker, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
}

bool PmiWorld::keep(std::string_view key, std::string_view value) {
  const auto size = [](std::string_view k, std::string_view v) { return k.size() + v.size() + around_a_put; };
  const auto old = held_.find(key);
  const auto others = held_bytes_ - (old == held_.end() ? 0 : size(old->first, old->second));
  if (others + size(key, value) > most_held) return false;
  held_bytes_ = others + size(key, value);
  held_.insert_or_assign(std::string(key), std::string(value));
  return true;
}

void PmiWorld::put(WorkerId worker, const pmi1::Line& line) {
  const auto key = line.get("key"), value = line.get("value");
  const auto refused = [&](std::string_view why) {
    reply(worker, fmt::format("cmd=put_result rc=-1 msg={}\n", why));
  };
  if (line.get("kvsname") != name_) return refused("no_such_kvsname");
  if (key.empty() || key.size() > pmi1::longest_name || key.starts_with("PMI_")) return refused("bad_key");
  const auto bytes = key.size() + value.size() + around_a_put;
  if (fresh_bytes_ + bytes > wire::gather_limit || !keep(key, value)) {
    tell_once(
        fmt::format("the ranks here put more than {} MiB into PMI's key space before one barrier, or "
                    "{} MiB in all",
                    wire::gather_limit >> 20, most_held >> 20));
    return refused("too_much");
  }
  fresh_bytes_ += bytes;
  fresh_.emplace_back(key, value);
  reply(worker, "cmd=put_result rc=0 msg=success\n");
}

void PmiWorld::get(WorkerId worker, const Client& client, const pmi1::Line& line) {
  const auto key = line.get("key");
  const auto found = held_.find(key);
  std::string_view value;
  if (key == "PMI_process_mapping") {
    value = client.place.mapping;
  } else if (found != held_.end() && line.get("kvsname") == name_) {
    value = found->second;
  }
  // An empty value is none: clients cannot read one.
  if (value.empty())
    return reply(worker, fmt::format("cmd=get_result rc=-1 msg=key_{}_not_found value=unknown\n",
                                     pmi1::as_value(key)));
  reply(worker, fmt::format("cmd=get_result rc=0 msg=success value={}\n", value));
}

void PmiWorld::enter_barrier(WorkerId worker, Client& client, const pmi1::Line& line) {
  if (const auto group = line.get("group"); !group.empty() && group != "WORLD")
    return refuse(worker, "barrier_out", "a barrier of some ranks");
  if (client.in_barrier) return no_pmi(worker, client);
  client.begun = client.in_barrier = true;
  if (!failed_.empty()) return barrier_fails(worker, client);
  look_at_barrier();
}

void PmiWorld::look_at_barrier() {
  std::uint32_t inside = 0, local = 0;
  std::vector<Rank> gone;
  for (const auto& [id, client] : clients_) {
    local = client.place.local_size;
    if (client.in_barrier) ++inside;
    if (client.gone) gone.push_back(client.place.rank);
  }
  if (inside == 0 || asked_ || !failed_.empty()) return;
  const auto sequence = barriers_ + 1;
  if (!gone.empty()) {
    asked_ = true;
    effects_.emplace_back(wire::Gather{generation_, {}, sequence, {}, std::move(gone)});
  } else if (inside == local) {
    const auto bytes = encoded({std::exchange(fresh_, {})});
    fresh_bytes_ = 0;
    if (local == clients_.begin()->second.place.size) return release();
    asked_ = true;
    effects_.emplace_back(wire::Gather{generation_, {}, sequence, bytes, {}});
  }
}

void PmiWorld::release() {
  ++barriers_;
  asked_ = false;
  for (auto& [id, client] : clients_)
    if (std::exchange(client.in_barrier, false)) reply(id, "cmd=barrier_out rc=0\n");
}

PmiWorld::Effects PmiWorld::gathered(const wire::Gathered& message) {
  if (!asked_ || !message.group.empty() || message.sequence != barriers_ + 1) return {};
  for (const auto& part : message.parts) {
    const auto puts = decoded(part);
    if (!puts) return failed("another host's part of a barrier cannot be read");
    for (const auto& [key, value] : puts->puts)
      if (!keep(key, value))
        return failed(fmt::format("PMI's key space has more than {} MiB", most_held >> 20));
  }
  if (message.last) release();
  return std::exchange(effects_, {});
}

PmiWorld::Effects PmiWorld::left(WorkerId worker) {
  const auto it = clients_.find(worker);
  if (it == clients_.end() || it->second.gone) return {};
  it->second.gone = it->second.hung_up = true;
  it->second.in_barrier = false;
  look_at_barrier();
  return std::exchange(effects_, {});
}

PmiWorld::Effects PmiWorld::failed(const std::string& reason) {
  if (!failed_.empty()) return {};
  failed_ = reason.empty() ? "the world has ended" : reason;
  asked_ = false;
  for (auto& [id, client] : clients_)
    if (client.in_barrier) barrier_fails(id, client);
  return std::exchange(effects_, {});
}

// Clients of MPICH 4.0 do not look at rc here; all understand that nobody answers them any more.
void PmiWorld::barrier_fails(WorkerId worker, Client& client) {
  client.in_barrier = false;
  client.hung_up = true;
  reply(worker, fmt::format("cmd=barrier_out rc=-1 msg={}\n", pmi1::as_value(failed_)));
  effects_.emplace_back(HangUp{worker});
}

wire::Answer PmiWorld::answer(const wire::Ask& question) const {
  wire::Answer answer{generation_, question.question, false, {}};
  if (const auto it = held_.find(question.key); it != held_.end()) {
    answer.found = true;
    answer.bytes = it->second;
  }
  return answer;
}

void PmiWorld::refuse(WorkerId worker, std::string_view answer, const std::string& what) {
  const bool second_world = what.starts_with("MPI_");
  tell_once(fmt::format("rank {} asked for {}, which trainrun does not offer{}",
                        clients_.at(worker).place.rank.value, what,
                        second_world ? fmt::format(" ({})", instead_of_a_second_world) : ""));
  reply(worker,
        fmt::format("cmd={} rc=-1 msg={}\n", answer, pmi1::as_value("trainrun does not offer " + what)));
}

void PmiWorld::no_pmi(WorkerId worker, Client& client) {
  tell_once(fmt::format("rank {} sent something on its PMI descriptor that is no PMI-1; it gets no answers",
                        client.place.rank.value));
  client.hung_up = true;
  client.in_barrier = false;
  effects_.emplace_back(HangUp{worker});
}

void PmiWorld::reply(WorkerId worker, std::string bytes) {
  effects_.emplace_back(Reply{worker, std::move(bytes)});
}

// All ranks do the same: the first that does it is named, and the others need not be.
void PmiWorld::tell_once(const std::string& text) {
  const auto what = text.substr(std::min(text.find(' ', 5), text.size()));  // without the rank
  if (std::find(told_.begin(), told_.end(), what) != told_.end() || told_.size() >= 8) return;
  told_.push_back(what);
  effects_.emplace_back(Tell{text});
}

}  // namespace trainrun::agent
