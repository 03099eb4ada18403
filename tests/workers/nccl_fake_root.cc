// The root of a communicator: all data goes through it. Like NCCL's it lives in the process that made the id.
// It does not tell anybody that a rank is gone: the others wait.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/halves.h"
#include "nccl_fake.h"

namespace nccl_fake {
namespace {

using trainrun::comm::bf16_of_f32;
using trainrun::comm::f16_of_f32;
using trainrun::comm::f32_of_bf16;
using trainrun::comm::f32_of_f16;

struct Message {
  Frame frame;
  std::vector<char> bytes;
};

struct Root {
  std::mutex mutex;
  std::vector<int> sockets;                                  // by rank
  std::vector<std::deque<Message>> collective;               // of each rank, in order
  std::map<std::pair<int, int>, std::deque<Message>> given;  // (from, to)
  std::map<std::pair<int, int>, std::deque<Frame>> awaited;
  ~Root() {
    for (const int socket : sockets) ::close(socket);
  }
};

void answer(Root& root, int to, Frame frame, const char* data, std::size_t bytes) {
  frame.bytes = bytes;
  const int socket = root.sockets[static_cast<std::size_t>(to)];
  if (write_all(socket, &frame, sizeof frame)) write_all(socket, data, bytes);
}

void match(Root& root, std::pair<int, int> pair) {
  auto& given = root.given[pair];
  auto& awaited = root.awaited[pair];
  while (!given.empty() && !awaited.empty()) {
    answer(root, pair.second, awaited.front(), given.front().bytes.data(), given.front().bytes.size());
    given.pop_front();
    awaited.pop_front();
  }
}

void collect(Root& root) {
  auto& queues = root.collective;
  while (std::all_of(queues.begin(), queues.end(), [](const auto& queue) { return !queue.empty(); })) {
    std::vector<Message> parts;
    for (auto& queue : queues) {
      parts.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    const auto& what = parts.front().frame;
    const auto size = static_cast<int>(parts.size());
    const auto block = static_cast<std::size_t>(what.count) * size_of(what.type);
    std::vector<const char*> all;
    for (const auto& part : parts) all.push_back(part.bytes.data());
    std::vector<char> out;
    if (what.what == What::all_gather) {
      for (const auto& part : parts) out.insert(out.end(), part.bytes.begin(), part.bytes.end());
    } else if (what.what == What::broadcast) {
      out = parts[static_cast<std::size_t>(what.peer)].bytes;
    } else {
      const auto count = parts.front().bytes.size() / size_of(what.type);
      out.resize(parts.front().bytes.size());
      reduce_parts(out.data(), all, count, what.type, what.op);
    }
    for (int rank = 0; rank < size; ++rank) {
      const auto place = static_cast<std::size_t>(rank);
      if (what.what == What::reduce_scatter)
        answer(root, rank, parts[place].frame, out.data() + place * block, block);
      else if (what.what == What::reduce && rank != what.peer)
        answer(root, rank, parts[place].frame, nullptr, 0);
      else
        answer(root, rank, parts[place].frame, out.data(), out.size());
    }
  }
}

void serve(const std::shared_ptr<Root>& root, int rank) {
  const int socket = root->sockets[static_cast<std::size_t>(rank)];
  Message message;
  while (read_all(socket, &message.frame, sizeof message.frame)) {
    message.bytes.resize(static_cast<std::size_t>(message.frame.bytes));
    if (!read_all(socket, message.bytes.data(), message.bytes.size())) return;
    const auto frame = message.frame;
    const std::lock_guard lock(root->mutex);
    if (frame.what == What::send) {
      root->given[{rank, frame.peer}].push_back(std::move(message));
      match(*root, {rank, frame.peer});
    } else if (frame.what == What::recv) {
      root->awaited[{frame.peer, rank}].push_back(frame);
      match(*root, {frame.peer, rank});
    } else {
      root->collective[static_cast<std::size_t>(rank)].push_back(std::move(message));
      collect(*root);
    }
    message = {};
  }
}

void gather_ranks(int listener) {
  const auto root = std::make_shared<Root>();
  std::size_t here = 0;
  do {
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    Frame hello;
    if (socket < 0 || !read_all(socket, &hello, sizeof hello)) {
      ::close(socket);
      continue;
    }
    send_at_once(socket);
    root->sockets.resize(static_cast<std::size_t>(hello.count), -1);
    root->sockets[static_cast<std::size_t>(hello.rank)] = socket;
    ++here;
  } while (here < root->sockets.size() || here == 0);
  ::close(listener);
  root->collective.resize(root->sockets.size());
  for (std::size_t rank = 0; rank < here; ++rank) std::thread(serve, root, static_cast<int>(rank)).detach();
  const std::lock_guard lock(root->mutex);
  for (std::size_t rank = 0; rank < here; ++rank) answer(*root, static_cast<int>(rank), {}, nullptr, 0);
}

template <class T>
void reduce_as(void* out, const std::vector<const char*>& parts, std::uint64_t count, int op) {
  enum { sum, prod, max, min, avg };
  for (std::uint64_t i = 0; i < count; ++i) {
    T result{};
    for (std::size_t part = 0; part < parts.size(); ++part) {
      T value;
      std::memcpy(&value, parts[part] + i * sizeof(T), sizeof(T));
      if (part == 0)
        result = value;
      else if (op == prod)
        result = static_cast<T>(result * value);
      else if (op == max || op == min)
        result = (op == max) == (value > result) ? value : result;
      else
        result = static_cast<T>(result + value);
    }
    if (op == avg) result = static_cast<T>(result / static_cast<T>(parts.size()));
    std::memcpy(static_cast<char*>(out) + i * sizeof(T), &result, sizeof(T));
  }
}

// In f32, rounded once.
void reduce_halves(void* out, const std::vector<const char*>& parts, std::uint64_t count, int op,
                   float (*up)(std::uint16_t), std::uint16_t (*down)(float)) {
  std::vector<std::vector<float>> wide(parts.size());
  std::vector<const char*> all;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (std::uint64_t i = 0; i < count; ++i)
      wide[part].push_back(up(trainrun::comm::load<std::uint16_t>(parts[part], i)));
    all.push_back(reinterpret_cast<const char*>(wide[part].data()));
  }
  std::vector<float> sum(count);
  reduce_as<float>(sum.data(), all, count, op);
  for (std::uint64_t i = 0; i < count; ++i) trainrun::comm::store(out, i, down(sum[i]));
}

}  // namespace

std::uint16_t start_root() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, plain, length) != 0 || ::listen(listener, 64) != 0 ||
      ::getsockname(listener, plain, &length) != 0)
    return 0;
  std::thread(gather_ranks, listener).detach();
  return ntohs(address.sin_port);
}

std::size_t size_of(int type) {
  constexpr std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return sizes[type];
}

void reduce_parts(void* out, const std::vector<const char*>& parts, std::uint64_t count, int type, int op) {
  switch (type) {
    case 0:
      return reduce_as<std::int8_t>(out, parts, count, op);
    case 2:
      return reduce_as<std::int32_t>(out, parts, count, op);
    case 4:
      return reduce_as<std::int64_t>(out, parts, count, op);
    case 7:
      return reduce_as<float>(out, parts, count, op);
    case 8:
      return reduce_as<double>(out, parts, count, op);
    case 6:
      return reduce_halves(out, parts, count, op, f32_of_f16, f16_of_f32);
    case 9:
      return reduce_halves(out, parts, count, op, f32_of_bf16, bf16_of_f32);
    default:
      return reduce_as<std::uint8_t>(out, parts, count, op);
  }
}

}  // namespace nccl_fake
