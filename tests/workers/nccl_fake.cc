#include "nccl_fake.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <sstream>
#include <thread>

namespace nccl_fake {
namespace {

enum Answer : int {
  success,
  cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress
};

struct Operation {
  Frame frame;
  std::vector<char> give;
  const char* later = nullptr;  // where it is once its turn comes, since a kernel that waits writes it
  char* take = nullptr;         // null: nothing comes back
  void* stream = nullptr;
};
using Unit = std::vector<Operation>;  // done at once

}  // namespace

std::optional<std::string> fault(const std::string& name) {
  const char* const all = std::getenv("NCCL_FAKE");
  const char* const rank = std::getenv("TRAINRUN_RANK");
  std::istringstream list(all == nullptr ? "" : all);
  for (std::string word; std::getline(list, word, ',');) {
    const auto colon = word.find(':');
    const auto equals = word.find('=', colon);
    if (colon == std::string::npos || equals == std::string::npos) continue;
    const auto whose = word.substr(0, colon);
    if ((whose == "*" || (rank != nullptr && whose == rank)) &&
        word.substr(colon + 1, equals - colon - 1) == name)
      return word.substr(equals + 1);
  }
  return std::nullopt;
}

std::optional<long> number_in(const std::optional<std::string>& value, const std::string& word) {
  if (!value || value->rfind(word, 0) != 0) return std::nullopt;
  return value->size() == word.size() ? 0 : std::strtol(value->c_str() + word.size() + 1, nullptr, 10);
}

void pause_ms(long ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool write_all(int fd, const void* data, std::size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const auto count = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

bool read_all(int fd, void* data, std::size_t bytes) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const auto count = ::recv(fd, at, bytes, 0);
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace nccl_fake

using namespace nccl_fake;

struct ncclComm {
  int rank = 0, size = 1, socket = -1;
  std::atomic<int> state = in_progress;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Unit> units;
  bool aborted = false, leaving = false;
  std::deque<void*> under_way;  // the stream of each operation that is not done
  long served = 0;
  std::thread worker;

  void run(std::uint16_t port);
  void finish(std::size_t operations, End end);
  bool meet(std::uint16_t port);
  bool perform(Unit& unit) const;
  void wait_for_abort() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return aborted; });
  }
};

void ncclComm::finish(std::size_t operations, End end) {
  for (; operations > 0; --operations) {
    finish_on(under_way.front(), end);
    under_way.pop_front();
  }
}

bool ncclComm::meet(std::uint16_t port) {
  if (fault("init") == "hang") {
    wait_for_abort();
    return false;
  }
  if (const auto ms = number_in(fault("init"), "slow")) pause_ms(*ms);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  Frame hello;
  hello.rank = rank;
  hello.count = static_cast<std::uint64_t>(size);
  return ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
         write_all(socket, &hello, sizeof hello) && read_all(socket, &hello, sizeof hello);
}

bool ncclComm::perform(Unit& unit) const {
  for (auto& one : unit) {
    if (one.later != nullptr) one.give.assign(one.later, one.later + one.frame.bytes);
    if (!write_all(socket, &one.frame, sizeof one.frame) ||
        !write_all(socket, one.give.data(), one.give.size()))
      return false;
  }
  const auto awaits = [](const Operation& one) { return one.frame.what != What::send; };
  for (auto left = std::count_if(unit.begin(), unit.end(), awaits); left > 0; --left) {
    Frame frame;
    if (!read_all(socket, &frame, sizeof frame)) return false;
    std::vector<char> bytes(static_cast<std::size_t>(frame.bytes));
    if (!read_all(socket, bytes.data(), bytes.size())) return false;
    const auto its = std::find_if(unit.begin(), unit.end(), [&](const Operation& one) {
      return one.frame.what == frame.what && one.frame.peer == frame.peer && one.frame.rank >= 0;
    });
    if (its == unit.end()) return false;
    its->frame.rank = -1;  // answered
    if (its->take != nullptr) std::copy(bytes.begin(), bytes.end(), its->take);
  }
  return true;
}

void ncclComm::run(std::uint16_t port) {
  const bool met = meet(port);
  std::unique_lock lock(mutex);
  state = aborted ? invalid_usage : met ? success : system_error;
  while (state == success || state == in_progress) {
    changed.wait(lock, [this] { return aborted || leaving || !units.empty(); });
    if (aborted || units.empty()) return;
    auto unit = std::move(units.front());
    units.pop_front();
    ++served;
    for (const auto& one : unit) {  // as NCCL, not before it is taken in
      enqueue_on(one.stream);
      under_way.push_back(one.stream);
    }
    state = success;
    const auto asked = fault("op");
    lock.unlock();
    if (number_in(asked, "stall") == served) return wait_for_abort();
    const bool good = number_in(asked, "error") != served && perform(unit);
    lock.lock();
    if (!good && !aborted) state = remote_error;
    if (!good) return;
    finish(unit.size(), End::done);
  }
}

namespace {

struct Id {
  char word[16];
  std::uint16_t port;
  char rest[128 - 16 - sizeof(std::uint16_t)];
};
static_assert(sizeof(Id) == 128);

struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};

thread_local int depth = 0;
thread_local Unit group;
thread_local ncclComm* group_of = nullptr;
std::atomic<long> operations = 0;

int submit(ncclComm* comm, Unit unit) {
  const auto number = ++operations;
  if (number_in(fault("op"), "die") == number) std::raise(SIGKILL);
  if (number_in(fault("op"), "fail") == number) return cuda_error;
  const std::lock_guard lock(comm->mutex);
  if (comm->state != success && comm->state != in_progress) return comm->state;
  comm->state = in_progress;
  comm->units.push_back(std::move(unit));
  comm->changed.notify_all();
  return in_progress;
}

int enqueue(ncclComm* comm, Frame frame, const void* in, std::size_t give, void* out, void* stream) {
  frame.rank = comm->rank;
  frame.bytes = give;
  const char* const data = static_cast<const char*>(in);
  Operation operation{frame, {}, nullptr, static_cast<char*>(out), stream};
  if (give > 0 && kernels_wait_on(stream))
    operation.later = data;
  else if (give > 0)
    operation.give.assign(data, data + give);
  if (depth == 0) return submit(comm, {std::move(operation)});
  group.push_back(std::move(operation));
  group_of = comm;
  return success;
}

void stop(ncclComm* comm, bool abort) {
  {
    const std::lock_guard lock(comm->mutex);
    comm->aborted = abort;
    comm->leaving = true;
    comm->changed.notify_all();
  }
  if (abort) ::shutdown(comm->socket, SHUT_RDWR);
  comm->worker.join();
  comm->finish(comm->under_way.size(), End::aborted);  // what is aborted holds up no stream
  ::close(comm->socket);
  delete comm;
}

Frame frame_of(What what, int peer, std::size_t count, int type, int op = 0) {
  return {what, 0, peer, type, op, count, 0};
}

}  // namespace

FAKE int ncclGetVersion(int* version) {
  *version = static_cast<int>(std::strtol(fault("version").value_or("22809").c_str(), nullptr, 10));
  return success;
}
FAKE const char* ncclGetErrorString(int answer) {
  constexpr const char* words[] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
  return answer >= 0 && answer <= in_progress ? words[answer] : "unknown result code";
}
FAKE const char* ncclGetLastError(ncclComm*) { return "said libnccl_fake, which is no NCCL"; }

FAKE int ncclGetUniqueId(Id* id) {
  if (fault("id") == "fail") return invalid_usage;
  *id = {};
  std::strcpy(id->word, "libnccl_fake");
  id->port = start_root();
  return id->port == 0 ? system_error : success;
}

FAKE int ncclCommInitRankConfig(ncclComm** into, int size, Id id, int rank, Config* config) {
  *into = nullptr;
  if (std::strcmp(id.word, "libnccl_fake") != 0 || rank < 0 || rank >= size) return invalid_argument;
  if (config->magic != 0xcafebeef || config->size < sizeof(Config)) return invalid_argument;
  if (fault("init") == "fail") return cuda_error;
  if (fault("init") == "die") std::raise(SIGKILL);
  auto* const comm = new ncclComm();
  comm->rank = rank;
  comm->size = size;
  comm->socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  send_at_once(comm->socket);
  comm->worker = std::thread([comm, port = id.port] { comm->run(port); });
  *into = comm;
  if (config->blocking == 0) return in_progress;
  while (comm->state == in_progress) pause_ms(1);
  return comm->state;
}
FAKE int ncclCommInitRank(ncclComm** into, int size, Id id, int rank) {
  Config config{sizeof(Config), 0xcafebeef, 21400, 1};
  return ncclCommInitRankConfig(into, size, id, rank, &config);
}
FAKE int ncclCommGetAsyncError(ncclComm* comm, int* answer) {
  *answer = comm->state;
  return success;
}
FAKE int ncclCommFinalize(ncclComm*) { return success; }
FAKE int ncclCommDestroy(ncclComm* comm) {
  stop(comm, false);
  return success;
}
FAKE int ncclCommAbort(ncclComm* comm) {
  while (fault("abort") == "hang") pause_ms(1000);
  if (const auto ms = number_in(fault("abort"), "slow")) pause_ms(*ms);
  stop(comm, true);
  return success;
}

FAKE int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op, ncclComm* comm,
                       void* stream) {
  return enqueue(comm, frame_of(What::all_reduce, 0, count, type, op), in, count * size_of(type), out,
                 stream);
}
FAKE int ncclReduce(const void* in, void* out, std::size_t count, int type, int op, int root, ncclComm* comm,
                    void* stream) {
  return enqueue(comm, frame_of(What::reduce, root, count, type, op), in, count * size_of(type), out, stream);
}
FAKE int ncclBroadcast(const void* in, void* out, std::size_t count, int type, int root, ncclComm* comm,
                       void* stream) {
  return enqueue(comm, frame_of(What::broadcast, root, count, type), in,
                 comm->rank == root ? count * size_of(type) : 0, out, stream);
}
FAKE int ncclReduceScatter(const void* in, void* out, std::size_t count, int type, int op, ncclComm* comm,
                           void* stream) {
  return enqueue(comm, frame_of(What::reduce_scatter, 0, count, type, op), in,
                 count * size_of(type) * static_cast<std::size_t>(comm->size), out, stream);
}
FAKE int ncclAllGather(const void* in, void* out, std::size_t count, int type, ncclComm* comm, void* stream) {
  return enqueue(comm, frame_of(What::all_gather, 0, count, type), in, count * size_of(type), out, stream);
}
FAKE int ncclSend(const void* in, std::size_t count, int type, int peer, ncclComm* comm, void* stream) {
  return enqueue(comm, frame_of(What::send, peer, count, type), in, count * size_of(type), nullptr, stream);
}
FAKE int ncclRecv(void* out, std::size_t count, int type, int peer, ncclComm* comm, void* stream) {
  return enqueue(comm, frame_of(What::recv, peer, count, type), nullptr, 0, out, stream);
}
FAKE int ncclGroupStart() {
  ++depth;
  return success;
}
FAKE int ncclGroupEnd() {
  if (--depth > 0 || group.empty()) return success;
  auto unit = std::move(group);
  group.clear();
  return submit(group_of, std::move(unit));
}
