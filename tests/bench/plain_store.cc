// The least that a server of Horovod's rendezvous is in C++: values by path, one thread, one request a
// connection, and 404 for what is not there yet. Prints its port and serves until it is killed.
//
//   bench_plain_store ADDRESS
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>

namespace {

std::map<std::string, std::string> values;

std::string reply(const char* status, const std::string& body = {}) {
  return std::string("HTTP/1.0 ") + status + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

// Empty: it is not whole yet.
std::string answer(const std::string& request) {
  const auto head = request.find("\r\n\r\n");
  const auto length = request.find("\r\nContent-Length: ");
  if (head == std::string::npos || length == std::string::npos) return {};
  if (request.size() < head + 4 + std::stoul(request.substr(length + 18))) return {};
  const auto blank = request.find(' ');
  const auto method = request.substr(0, blank);
  const auto path = request.substr(blank + 1, request.find(' ', blank + 1) - blank - 1);
  if (method == "PUT") values[path] = request.substr(head + 4);
  if (method == "DELETE") values.erase(path);
  if (method != "GET") return reply("200 OK");
  const auto it = values.find(path);
  return it == values.end() ? reply("404 Not Found") : reply("200 OK", it->second);
}

}  // namespace

int main(int argc, char** argv) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (argc != 2 || ::inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) return 2;
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener, SOMAXCONN) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror(argv[1]);
    return 1;
  }
  std::printf("%d\n", ntohs(address.sin_port));
  std::fflush(stdout);

  std::map<int, std::string> requests;
  const int poll = ::epoll_create1(0);
  const auto watch = [&](int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
  };
  watch(listener);
  epoll_event events[256];
  char buffer[65536];
  for (;;) {
    const int ready = ::epoll_wait(poll, events, 256, -1);
    for (int i = 0; i < ready; ++i) {
      const int fd = events[i].data.fd;
      if (fd == listener) {
        if (const int client = ::accept(listener, nullptr, nullptr); client >= 0) watch(client);
        continue;
      }
      const auto n = ::read(fd, buffer, sizeof buffer);
      auto& request = requests[fd];
      if (n > 0) request.append(buffer, static_cast<std::size_t>(n));
      const auto said = n > 0 ? answer(request) : std::string();
      if (n > 0 && said.empty()) continue;
      if (!said.empty() && ::send(fd, said.data(), said.size(), MSG_NOSIGNAL) < 0) std::perror("send");
      requests.erase(fd);
      ::close(fd);
    }
  }
}
