// Random schedules of elastic worlds: processes that do what Horovod's core does, one request after the
// other, and are killed anywhere; a launcher that plans the next world, late and in any order. Whatever
// happens, a place is one rank's alone, an address is one of the same world, and in the end all train
// together.
//
// A failure names its seed: -tc="*schedule*" with the environment's HOROVOD_SEED plays that one alone.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rendezvous/adapters/horovod_http.h"
#include "rendezvous/adapters/horovod_notices.h"

namespace trainrun::rendezvous::schedule {

// Where a process is between its requests. `init` has three meshes: global, local, cross.
enum class At : std::uint8_t { put, fetch, barrier, passed, address, train, ask };

struct Process {
  WorkerId id;
  HorovodSeat seat{};
  std::size_t size = 0;
  std::uint32_t generation = 0;  // of its place
  std::string host{};
  At at = At::put;
  int mesh = 0;
  std::uint32_t next = 0;        // whose address it fetches
  std::uint32_t connection = 0;  // waits for the reply; 0: it does not
  bool alive = true, noticed = true, registered = false, doomed = false, notified = false;
};

class Schedule {
 public:
  explicit Schedule(std::uint32_t seed) : random_(seed) {
    std::uint32_t slots = 0;
    for (const auto* name : {"a", "b", "c"}) hosts_[name] = slots = 1 + any(3);
    begin_anew();
  }

  void run() {
    int faults = 3 + static_cast<int>(any(5));
    for (int step = 0; step < 20'000; ++step) {
      if (faults > 0 && any(60) == 0) {
        --faults;
        strike();
      }
      if (!turn() && faults == 0) return check_end();
    }
    FAIL("it does not come to an end");
  }
  int worlds = 0, in_place = 0, planned = 0;

 private:
  std::uint32_t any(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  // ---- the launcher

  [[nodiscard]] std::vector<HorovodSeat> seats(
      const std::vector<std::pair<std::string, std::vector<WorkerId>>>& by_host) const {
    std::vector<HorovodSeat> out;
    for (const auto& [host, workers] : by_host)
      for (std::uint32_t local = 0; local < workers.size(); ++local) {
        std::uint32_t cross = 0, cross_size = 0;
        for (const auto& [other, theirs] : by_host) {
          if (theirs.size() <= local) continue;
          if (other == host) cross = cross_size;
          ++cross_size;
        }
        out.push_back({Rank{static_cast<std::uint32_t>(out.size())}, host, local,
                       static_cast<std::uint32_t>(workers.size()), cross, cross_size, workers[local]});
      }
    return out;
  }
  WorkerId start(const std::string& host) {
    const WorkerId id{++last_worker_};
    processes_[id] = Process{.id = id, .host = host};
    return id;
  }
  void begin_anew() {
    for (auto& [id, process] : processes_) die(process);
    processes_.clear();
    order_.clear();
    std::vector<std::pair<std::string, std::vector<WorkerId>>> by_host;
    for (const auto& [host, slots] : hosts_) {
      order_.push_back(host);
      by_host.emplace_back(host, std::vector<WorkerId>{});
      for (std::uint32_t i = 0; i < slots; ++i) by_host.back().second.push_back(start(host));
    }
    begin(by_host);
  }
  void begin(const std::vector<std::pair<std::string, std::vector<WorkerId>>>& by_host) {
    plan_ = seats(by_host);
    plans_[++generation_] = plan_;
    ++worlds;
    formed_ = announced_ = interrupted_ = false;
    waits_.clear();
    std::vector<WorkerId> workers;
    for (const auto& seat : plan_) {
      trace("world {}: rank {} is worker {}, {}:{}", generation_, seat.rank.value, seat.worker.value,
            seat.host, seat.local_rank);
      workers.push_back(seat.worker);
      auto& process = processes_.at(seat.worker);
      if (process.generation == 0) take_place(process, seat);
    }
    notices_.begin(workers);
    http_.begin(plan_);
  }
  void take_place(Process& process, const HorovodSeat& seat) {
    process.seat = seat;
    process.size = plan_.size();
    process.generation = generation_;
    process.at = At::put;
    process.mesh = 0;
    process.notified = false;
  }
  // Of the one schedule that was chosen.
  template <class... What>
  static void trace(fmt::format_string<What...> format, What&&... what) {
    static const bool on = std::getenv("HOROVOD_SEED") != nullptr;
    if (on) fmt::print("{}\n", fmt::format(format, std::forward<What>(what)...));
  }
  [[nodiscard]] bool is_member(WorkerId id) const {
    return std::any_of(plan_.begin(), plan_.end(), [id](const auto& seat) { return seat.worker == id; });
  }
  // After a failure that was seen, or when all have come for a planned change. In place: whoever lives and
  // has been in a world that met goes on, in its slot; hosts that still have such a one come first.
  void form_next() {
    std::map<std::string, std::vector<WorkerId>> survivors;
    for (const auto& seat : plan_) {
      auto& process = processes_.at(seat.worker);
      if (!process.alive || process.doomed) continue;
      if (!seasoned_.contains(seat.worker)) {
        die(process);
      } else if (!hosts_.contains(process.host)) {
        process.doomed = true;
        http_.dismiss(seat.worker);
      } else {
        survivors[process.host].push_back(seat.worker);
      }
    }
    if (survivors.empty()) return begin_anew();
    ++in_place;
    // The lists of slots keep their order: that of ranks before.
    std::vector<std::pair<std::string, std::vector<WorkerId>>> by_host;
    for (const bool first : {true, false})
      for (const auto& host : order_) {
        if (!hosts_.contains(host)) continue;
        const auto it = survivors.find(host);
        if ((it != survivors.end()) != first) continue;
        auto workers = it == survivors.end() ? std::vector<WorkerId>{} : it->second;
        while (workers.size() < hosts_[host]) workers.push_back(start(host));
        by_host.emplace_back(host, workers);
      }
    begin(by_host);
  }

  // ---- faults

  void strike();
  void die(Process& process) {
    if (!process.alive) return;
    trace("worker {} dies", process.id.value);
    process.alive = process.noticed = false;
    if (process.connection != 0) http_.closed(std::exchange(process.connection, 0));
  }

  // ---- what happens next, if anything can

  enum class Choice : std::uint8_t { kill, see_death, step, form, deliver };

  bool turn();
  [[nodiscard]] bool all_wait() const {
    return std::all_of(plan_.begin(), plan_.end(), [this](const auto& seat) {
      return !processes_.at(seat.worker).alive || waits_.contains(seat.worker);
    });
  }

  // ---- a process

  [[nodiscard]] std::vector<WorkerId> mesh_of(const Process& process) const {
    std::vector<WorkerId> out;
    for (const auto& seat : plans_.at(process.generation))
      if (process.mesh == 0 || (process.mesh == 1 && seat.host == process.seat.host) ||
          (process.mesh == 2 && seat.local_rank == process.seat.local_rank))
        out.push_back(seat.worker);
    return out;
  }
  [[nodiscard]] std::string scope_of(const Process& process) const {
    return process.mesh == 0   ? "global"
           : process.mesh == 1 ? "local_" + process.seat.host
                               : "cross_" + std::to_string(process.seat.local_rank);
  }
  [[nodiscard]] static std::pair<std::uint32_t, std::uint32_t> place_in_mesh(const Process& process) {
    const auto& seat = process.seat;
    if (process.mesh == 0) return {seat.rank.value, static_cast<std::uint32_t>(process.size)};
    return process.mesh == 1 ? std::pair(seat.local_rank, seat.local_size)
                             : std::pair(seat.cross_rank, seat.cross_size);
  }
  // A peer that is gone, or has gone on: Horovod's core ends the process within init, and leaves the world
  // later.
  [[nodiscard]] bool has_lost(const Process& process, const std::vector<WorkerId>& peers) const {
    return std::any_of(peers.begin(), peers.end(), [&](WorkerId id) {
      const auto it = processes_.find(id);
      return it == processes_.end() || !it->second.alive || it->second.generation != process.generation ||
             it->second.at == At::ask;
    });
  }
  [[nodiscard]] std::vector<WorkerId> world_of(const Process& process) const {
    std::vector<WorkerId> out;
    for (const auto& seat : plans_.at(process.generation)) out.push_back(seat.worker);
    return out;
  }
  [[nodiscard]] bool all_came(const Process& process) const {
    const auto mesh = mesh_of(process);
    return std::all_of(mesh.begin(), mesh.end(), [&](WorkerId id) {
      const auto& peer = processes_.at(id);
      return peer.generation == process.generation &&
             (peer.mesh > process.mesh || (peer.mesh == process.mesh && peer.at >= At::barrier));
    });
  }
  [[nodiscard]] bool can_step(const Process& process) const {
    if (process.at == At::barrier) return has_lost(process, mesh_of(process)) || all_came(process);
    if (process.at == At::train)
      return has_lost(process, world_of(process)) || (process.generation == generation_ && interrupted_) ||
             (process.notified && process.seat.rank == Rank{0});
    return process.at != At::ask || !asked_.contains(process.id);
  }
  void step(Process& process);
  void request(Process& process, const std::string& line, const std::string& body = {});
  void replied(std::uint32_t connection, const std::string& reply);
  // A notice arrives, or the connection breaks; Horovod keeps it until the next commit of a world that
  // trains.
  void deliver();

  void check_end();

  std::mt19937 random_;
  Instant now_{seconds(1)};
  std::map<std::string, std::uint32_t> hosts_;  // and their slots
  std::vector<std::string> order_;
  std::map<WorkerId, Process> processes_;
  std::vector<HorovodSeat> plan_;
  std::map<std::uint32_t, std::vector<HorovodSeat>> plans_;
  std::uint32_t generation_ = 0, last_worker_ = 0, last_connection_ = 0;
  int last_host_ = 0;
  bool formed_ = false, failed_ = false, announced_ = false, interrupted_ = false;
  std::set<WorkerId> waits_, seasoned_, killed_, asked_;
  std::vector<std::pair<Choice, Process*>> choices_;
  std::map<std::uint32_t, WorkerId> clients_;
  std::vector<std::pair<std::uint32_t, WorkerId>> deliveries_;
  const std::string key_ = std::string("\0\1\2\3\4\5\6\7\x08\t\n\x0b\x0c\r\x0e\x0f", 16) +
                           "\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f";
  const std::string service_ =
      "gAWVQgAAAAAAAAB9lIwCbG+"
      "UXZSMCTEyNy4wLjAuMZRNB4eGlGFzQyAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eH5SGlC4=";
  HorovodNotices notices_{{[this](std::uint32_t attempt, WorkerId worker, HorovodEndpoint,
                                  const std::string&) { deliveries_.emplace_back(attempt, worker); },
                           [this](std::uint32_t attempt) {
                             std::erase_if(deliveries_,
                                           [attempt](const auto& it) { return it.first == attempt; });
                           },
                           [](WorkerId, const std::string&) {}}};
  HorovodHttp http_{
      {.send = [this](std::uint32_t connection, const std::string& reply) { replied(connection, reply); },
       .close = [](std::uint32_t, const std::string& why) { CHECK(why.empty()); },
       .formed =
           [this] {
             formed_ = true;
             for (const auto& seat : plan_) seasoned_.insert(seat.worker);
           },
       .waits =
           [this](WorkerId worker) {
             waits_.insert(worker);
             notices_.interrupted();
           },
       .hopeless =
           [this](WorkerId worker) {
             processes_.at(worker).doomed = true;
             killed_.insert(worker);
           },
       .listens =
           [this](WorkerId worker, const std::string& value) {
             notices_.registered(worker, read_horovod_service(value).value(), now_);
           }}};
};

}  // namespace trainrun::rendezvous::schedule
