// A rank as Horovod's core makes one on Gloo, without Horovod: its variables, its requests byte for byte,
// their order, and its time_limit. The meshes are real ones, of Debian's libgloo.
//
//   mesh [ROUNDS]     hvd.init and hvd.shutdown, so many times, with an allreduce in each of the three meshes
//   form ROUNDS       the mesh of all ranks alone, and of each when it began and ended, in ns
//   set               as mesh, and a process set of all but rank 0 if there are enough
//   late RANK FILE    as mesh, but that rank waits for FILE first
//   leave RANK        as mesh, but that rank exits with 0 instead
//   say WORDS         one line to the server, and what it answers
//
// As with Horovod, a request that fails three times ends it by SIGABRT, and so does a wait that takes longer
// than HOROVOD_GLOO_TIMEOUT_SECONDS.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string variable(const std::string& name, const char* otherwise) {
  const char* value = std::getenv(("HOROVOD_" + name).c_str());
  return value == nullptr ? otherwise : value;
}
int number(const std::string& name, const char* otherwise) { return std::stoi(variable(name, otherwise)); }

struct Reply {
  int status = 0;
  std::string body;
};

// As HTTPRequest reads it: one header counts, by this spelling; what comes behind the first empty line is the
// body.
Reply parse(const std::string& text) {
  const auto end = text.find("\r\n\r\n");
  const auto blank = text.find(' ');
  if (end == std::string::npos || !text.starts_with("HTTP/1.") || blank == std::string::npos) return {};
  Reply reply{std::stoi(text.substr(blank + 1)), text.substr(end + 4)};
  const auto length = text.find("\r\nContent-Length: ");
  if (length == std::string::npos || length > end ||
      std::stoul(text.substr(length + 18)) != reply.body.size())
    return {};
  return reply;
}

std::string exchange(const std::string& bytes) {
  const auto address = variable("GLOO_RENDEZVOUS_ADDR", ""), port = variable("GLOO_RENDEZVOUS_PORT", "-1");
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(address.c_str(), port.c_str(), &hints, &found) != 0) return {};
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const bool connected = ::connect(fd, found->ai_addr, found->ai_addrlen) == 0;
  ::freeaddrinfo(found);
  std::string answer;
  for (std::size_t sent = 0; connected && sent < bytes.size();) {
    const auto n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<std::size_t>(n);
  }
  char buffer[65536];
  for (ssize_t n = 0; connected && (n = ::read(fd, buffer, sizeof buffer)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(n));
  ::close(fd);
  return answer;
}

Reply request(const std::string& method, const std::string& path, const std::string& body = {}) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto reply =
        parse(exchange(method + " " + path + " HTTP/1.1\r\nHost: " + variable("GLOO_RENDEZVOUS_ADDR", "") +
                       "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body));
    if (reply.status == 200 || reply.status == 404) return reply;
    std::this_thread::sleep_for(milliseconds(500));
  }
  throw std::runtime_error("HTTP request failed.");
}

class HttpStore : public gloo::rendezvous::Store {
 public:
  explicit HttpStore(std::string scope) : scope_(std::move(scope)) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    request("PUT", path(key), {data.begin(), data.end()});
  }
  std::vector<char> get(const std::string& key) override {
    const auto reply = request("GET", path(key));
    return {reply.body.begin(), reply.body.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, kDefaultTimeout); }
  void wait(const std::vector<std::string>& keys, const milliseconds&) override {
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& key : keys) {
      while (request("GET", path(key)).status == 404) {
        if (std::chrono::steady_clock::now() - begin > seconds(number("GLOO_TIMEOUT_SECONDS", "30")))
          throw std::runtime_error("Wait timeout for key(s): " + key);
        std::this_thread::sleep_for(milliseconds(10));
      }
    }
  }
  void finalize(int rank) { request("DELETE", path(std::to_string(rank))); }

 private:
  [[nodiscard]] std::string path(const std::string& key) const { return "/" + scope_ + "/" + key; }
  std::string scope_;
};

using Device = std::shared_ptr<gloo::transport::Device>;

using Mesh = std::shared_ptr<gloo::rendezvous::Context>;

Device make_device() {
  gloo::transport::tcp::attr attributes;
  attributes.iface = variable("GLOO_IFACE", "");
  return gloo::transport::tcp::CreateDevice(attributes);
}

Mesh form(const std::string& scope, int rank, int size, Device& device) {
  HttpStore store(scope);
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->setTimeout(seconds(number("GLOO_TIMEOUT_SECONDS", "30")));
  context->connectFullMesh(store, device);
  gloo::BarrierOptions barrier(context);
  gloo::barrier(barrier);
  store.finalize(rank);
  return context;
}

void form_again_and_again(int rounds) {
  const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  Device device = make_device();
  for (int round = 0; round < rounds; ++round) {
    const auto begun = now();
    const auto context = form("global", number("RANK", "0"), number("SIZE", "1"), device);
    std::printf("round %d: %lld %lld\n", round, static_cast<long long>(begun), static_cast<long long>(now()));
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);  // or somebody would come to the next one before another has left this one
  }
}

// How many there are, as they themselves count.
int meet(const std::string& scope, int rank, int size, Device& device) {
  const auto context = form(scope, rank, size, device);
  gloo::BarrierOptions barrier(context);
  int one = 1, sum = 1;
  if (size > 1) {
    gloo::AllreduceOptions options(context);
    options.setInput(&one, 1);
    options.setOutput(&sum, 1);
    options.setReduceFunction(
        [](void* out, const void* a, const void* b, std::size_t n) { gloo::sum<int>(out, a, b, n); });
    gloo::allreduce(options);
  }
  gloo::barrier(barrier);
  return sum;
}

void init(bool with_set) {
  Device device = make_device();
  const int rank = number("RANK", "0"), size = number("SIZE", "1");
  const int global = meet("global", rank, size, device);
  const int local = meet("local_" + variable("HOSTNAME", "localhost"), number("LOCAL_RANK", "0"),
                         number("LOCAL_SIZE", "1"), device);
  const int cross = meet("cross_" + variable("LOCAL_RANK", "0"), number("CROSS_RANK", "0"),
                         number("CROSS_SIZE", "1"), device);
  std::string of_set;
  if (with_set && rank > 0)
    of_set = ", set " + std::to_string(meet("global_process_set_hash_5f3a", rank - 1, size - 1, device));
  std::printf("rank %d of %d: global %d, local %d, cross %d%s\n", rank, size, global, local, cross,
              of_set.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto word = [&](std::size_t i) { return i < words.size() ? words[i] : std::string(); };
  if (word(0) == "say") {
    std::printf("%s", exchange(word(1) + "\r\n\r\n").c_str());
    return 0;
  }
  if (word(0) == "form") {
    form_again_and_again(std::stoi(word(1)));
    return 0;
  }
  if (word(1) == variable("RANK", "") && word(0) == "leave") return 0;
  if (word(1) == variable("RANK", "") && word(0) == "late") {
    std::fprintf(stderr, "reading the data\n");
    const auto until = std::chrono::steady_clock::now() + seconds(300);
    while (::access(word(2).c_str(), F_OK) != 0) {
      if (std::chrono::steady_clock::now() > until) throw std::runtime_error(word(2) + " does not come");
      std::this_thread::sleep_for(milliseconds(50));
    }
  }
  const int rounds = word(0) == "mesh" && words.size() > 1 ? std::stoi(words[1]) : 1;
  for (int round = 0; round < rounds; ++round) init(word(0) == "set");
  return 0;
}
