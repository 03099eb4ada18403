// What happens in a schedule: faults, and each step of a process.
#include "tests/unit/rendezvous/horovod_schedule.h"

#include <cstdio>

#include "rendezvous/digest.h"

namespace trainrun::rendezvous::schedule {

void Schedule::step(Process& process) {
  const auto [rank, size] = place_in_mesh(process);
  switch (process.at) {
    case At::put:
      process.next = 0;
      return request(process, "PUT /" + scope_of(process) + "/" + std::to_string(rank),
                     std::to_string(process.id.value) + " " + std::to_string(process.generation));
    case At::fetch:
      if (process.next == rank) ++process.next;
      if (process.next >= size) {
        process.at = At::barrier;
        return;
      }
      return request(process, "GET /" + scope_of(process) + "/" + std::to_string(process.next));
    case At::barrier:
      if (!all_came(process)) return die(process);
      process.at = At::passed;
      return;
    case At::passed:
      return request(process, "DELETE /" + scope_of(process) + "/" + std::to_string(rank));
    case At::address:
      return request(process,
                     "PUT /worker_addresses/" + process.host + ":" + std::to_string(process.seat.local_rank),
                     service_);
    case At::train:
      if (process.notified && process.seat.rank == Rank{0} && process.generation == generation_)
        interrupted_ = true;
      process.notified = false;
      process.at = At::ask;
      return;
    case At::ask:
      asked_.insert(process.id);
      trace("worker {} asks as {}:{}", process.id.value, process.host, process.seat.local_rank);
      return request(process,
                     "GET /rank_and_size/" + process.host + ":" + std::to_string(process.seat.local_rank));
  }
}

void Schedule::request(Process& process, const std::string& line, const std::string& body) {
  const auto connection = ++last_connection_;
  process.connection = connection;
  clients_[connection] = process.id;
  http_.opened(connection);
  const auto text = line + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + std::to_string(body.size()) +
                    "\r\n\r\n" + body;
  const auto cut = any(static_cast<std::uint32_t>(text.size()));
  http_.received(connection, text.substr(0, cut));
  http_.received(connection, text.substr(cut));
}

void Schedule::replied(std::uint32_t connection, const std::string& reply) {
  auto& process = processes_.at(clients_.at(connection));
  REQUIRE(process.connection == connection);
  process.connection = 0;
  const auto body = reply.substr(reply.find("\r\n\r\n") + 4);
  REQUIRE(reply.starts_with("HTTP/1.0 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n"));
  switch (process.at) {
    case At::put:
      process.at = At::fetch;
      return;
    case At::fetch: {
      std::uint32_t worker = 0, generation = 0;
      REQUIRE(std::sscanf(body.c_str(), "%u %u", &worker, &generation) == 2);
      CHECK(generation == process.generation);  // a dead address would be of another
      CHECK(mesh_of(process).at(process.next) == WorkerId{worker});
      ++process.next;
      return;
    }
    case At::passed:
      if (++process.mesh < 3) {
        process.at = At::put;
      } else {
        process.mesh = 3;
        process.at = std::exchange(process.registered, true) ? At::train : At::address;
      }
      return;
    case At::address:
      process.at = At::train;
      return;
    case At::ask: {
      asked_.erase(process.id);
      trace("worker {} is told {}", process.id.value, body);
      HorovodSeat seat{};
      std::size_t size = 0;
      REQUIRE(std::sscanf(body.c_str(), "%u,%zu,%u,%u,%u,%u", &seat.rank.value, &size, &seat.local_rank,
                          &seat.local_size, &seat.cross_rank, &seat.cross_size) == 6);
      REQUIRE(size == plan_.size());
      const auto& own = plan_.at(seat.rank.value);
      CHECK(own.worker == process.id);
      CHECK(std::tuple(own.local_rank, own.local_size, own.cross_rank, own.cross_size) ==
            std::tuple(seat.local_rank, seat.local_size, seat.cross_rank, seat.cross_size));
      return take_place(process, own);
    }
    case At::barrier:
    case At::train:
      FAIL("it had asked nothing");
  }
}

void Schedule::deliver() {
  const auto [attempt, worker] = deliveries_.front();
  deliveries_.erase(deliveries_.begin());
  const auto it = processes_.find(worker);
  if (it == processes_.end() || !it->second.alive || any(4) == 0)
    return notices_.refused(attempt, "broken", now_);
  if (it->second.at == At::train) it->second.notified = true;
  const std::string body = "AckResponse";
  notices_.received(attempt, keyed_digest(key_, body) + std::string("\x0b\0\0\0", 4) + body, false, now_);
}

void Schedule::strike() {
  std::vector<Process*> living;
  for (auto& [id, process] : processes_)
    if (process.alive && !process.doomed) living.push_back(&process);
  switch (any(4)) {
    case 0:
      if (!formed_ || announced_) return;
      if (any(2) == 0 && hosts_.size() > 1) {
        hosts_.erase(order_[any(static_cast<std::uint32_t>(order_.size()))]);
      } else {
        const auto host = "n" + std::to_string(++last_host_);
        hosts_[host] = 1 + any(2);
        order_.push_back(host);
      }
      announced_ = true;
      ++planned;
      return notices_.announce(any(2) == 0, 0, now_);
    case 1:  // two at once
      if (!living.empty()) die(*living[any(static_cast<std::uint32_t>(living.size()))]);
      [[fallthrough]];
    default:
      if (!living.empty()) die(*living[any(static_cast<std::uint32_t>(living.size()))]);
  }
}

void Schedule::check_end() {
  for (const auto& seat : plan_) {
    const auto& process = processes_.at(seat.worker);
    CHECK(process.alive);
    CHECK(process.at == At::train);
    CHECK(process.generation == generation_);
    CHECK(process.seat.rank == seat.rank);
  }
  CHECK(formed_);
  CHECK_FALSE(announced_);
  for (const auto& [id, process] : processes_) CHECK((is_member(id) || !process.alive));
}

bool Schedule::turn() {
  choices_.clear();
  for (auto& [id, process] : processes_) {
    // At once, or when its grace is over.
    if (process.doomed && process.alive && (killed_.contains(id) || !is_member(id)))
      choices_.emplace_back(Choice::kill, &process);
    if (!process.alive && !process.noticed) choices_.emplace_back(Choice::see_death, &process);
    if (process.alive && process.connection == 0 && can_step(process))
      choices_.emplace_back(Choice::step, &process);
  }
  if (failed_ || (announced_ && all_wait())) choices_.emplace_back(Choice::form, nullptr);
  if (!deliveries_.empty()) choices_.emplace_back(Choice::deliver, nullptr);
  if (choices_.empty() && notices_.next_deadline() && announced_) {
    now_ = *notices_.next_deadline();
    notices_.advance(now_);
    return true;
  }
  if (choices_.empty()) return false;
  const auto [choice, process] = choices_[any(static_cast<std::uint32_t>(choices_.size()))];
  switch (choice) {
    case Choice::kill:
      die(*process);
      break;
    case Choice::see_death:
      process->noticed = true;
      failed_ |= is_member(process->id);
      break;
    case Choice::step:
      step(*process);
      break;
    case Choice::form:
      failed_ = false;
      form_next();
      break;
    case Choice::deliver:
      deliver();
      break;
  }
  return true;
}

}  // namespace trainrun::rendezvous::schedule
