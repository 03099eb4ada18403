#include "launcher/control/socket_place.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>

#include "launcher/base/strings.h"

namespace trainrun::control {
namespace {

constexpr std::string_view ending = ".sock", unready_ending = ".new";
// Between bind and rename of a launcher that lives there is a moment.
constexpr std::int64_t surely_dead_after = 60;  // seconds
constexpr std::size_t longest_id = 64;
constexpr int backlog = 16;

bool is_job_id(std::string_view text) {
  return !text.empty() && text.size() <= longest_id &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string xdg_place(std::string_view xdg_runtime_dir) {
  return fmt::format("{}/trainrun", xdg_runtime_dir);
}
std::string tmp_place(uid_t uid) { return fmt::format("/tmp/trainrun-{}", uid); }

std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

tl::unexpected<Error> too_long(const std::string& path) {
  return fail(Code::config,
              fmt::format("{} is too long for a socket, whose path has {} bytes at most", quoted(path, 300),
                          sizeof(sockaddr_un{}.sun_path) - 1),
              "set XDG_RUNTIME_DIR to a directory with a shorter name");
}

// A socket of a launcher that was killed before it listened.
bool was_left_unready(const std::string& path) {
  struct stat status {};
  return look_at_socket(path) == Presence::stale && ::lstat(path.c_str(), &status) == 0 &&
         std::time(nullptr) - status.st_mtime > surely_dead_after;
}

// Others may write to the parent only where the sticky bit keeps them from what is ours: /tmp.
bool parent_is_safe(const std::string& directory) {
  const auto slash = directory.rfind('/');
  const auto parent = slash == std::string::npos ? std::string(".") : directory.substr(0, slash);
  struct stat status {};
  if (::stat(parent.empty() ? "/" : parent.c_str(), &status) != 0) return false;
  if ((status.st_mode & S_ISVTX) != 0) return true;
  return (status.st_uid == 0 || status.st_uid == ::geteuid()) && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

std::vector<std::string> places_to_look(std::string_view xdg_runtime_dir, uid_t uid) {
  std::vector<std::string> places;
  if (xdg_runtime_dir.starts_with('/')) places.push_back(xdg_place(xdg_runtime_dir));
  for (auto& place : {xdg_place(fmt::format("/run/user/{}", uid)), tmp_place(uid)}) {
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  return places;
}

std::string socket_path(const std::string& directory, std::string_view job_id) {
  return fmt::format("{}/{}{}", directory, job_id, ending);
}

Result<void> check_directory(const std::string& directory) {
  const auto refused = [&](std::string_view why, std::string hint = {}) {
    return fail(Code::refused, fmt::format("the directory {} {}", quoted(directory, 300), why),
                std::move(hint));
  };
  const Fd opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened && errno == ENOENT) return fail(Code::not_found, fmt::format("there is no {}", directory));
  struct stat status {};
  if (!opened) {
    const int why = errno;
    if (::lstat(directory.c_str(), &status) == 0 && S_ISLNK(status.st_mode))
      return refused("is a symbolic link", "remove it");
    return refused(fmt::format("cannot be opened: {}", errno_text(why)));
  }
  if (::fstat(opened.get(), &status) != 0) return refused(errno_text(errno));
  if (status.st_uid != ::geteuid()) return refused(fmt::format("belongs to the user {}", status.st_uid));
  if ((status.st_mode & 077) != 0)
    return refused(fmt::format("is open to other users (mode {:o})", status.st_mode & 07777),
                   fmt::format("chmod 700 {}", shell_quote(directory)));
  if (!parent_is_safe(directory)) return refused("lies in one that other users can write to");
  return {};
}

Result<void> make_directory(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Code::try_again,
                fmt::format("cannot make the directory {}: {}", quoted(directory, 300), errno_text(errno)));
  return check_directory(directory);
}

Presence look_at_socket(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode) || status.st_uid != ::geteuid())
    return Presence::absent;
  const auto address = address_of(path);
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!address || !probe) return Presence::absent;
  if (::connect(probe.get(), generic(*address), sizeof *address) == 0) return Presence::alive;
  if (errno == ECONNREFUSED) return Presence::stale;
  return errno == EAGAIN ? Presence::alive : Presence::absent;  // EAGAIN: its queue is full
}

std::vector<std::string> live_jobs(const std::string& directory) {
  std::vector<std::string> ids;
  bool removed = false;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory.c_str()), ::closedir);
  if (!listing) return ids;
  while (const auto* entry = ::readdir(listing.get())) {
    std::string_view name = entry->d_name;
    if (name.ends_with(unready_ending) && is_job_id(name.substr(0, name.size() - unready_ending.size()))) {
      const auto path = fmt::format("{}/{}", directory, name);
      removed = (was_left_unready(path) && ::unlink(path.c_str()) == 0) || removed;
    }
    if (!name.ends_with(ending)) continue;
    name.remove_suffix(ending.size());
    if (!is_job_id(name)) continue;
    const auto path = socket_path(directory, name);
    const auto presence = look_at_socket(path);
    if (presence == Presence::alive) ids.emplace_back(name);
    if (presence == Presence::stale) removed = ::unlink(path.c_str()) == 0 || removed;
  }
  if (removed && ids.empty()) ::rmdir(directory.c_str());  // fails where anything else is in it
  std::sort(ids.begin(), ids.end());
  return ids;
}

Result<Fd> listen_at(const std::string& path) {
  if (look_at_socket(path) == Presence::alive)
    return fail(Code::try_again, fmt::format("another launcher listens on {}", path));
  // Bound under another name: between bind and listen a socket refuses like a dead one, and would be removed.
  const auto unready = fmt::format("{}{}", path.substr(0, path.rfind('.')), unready_ending);
  const auto address = address_of(unready);
  if (!address || !address_of(path)) return too_long(path);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ::unlink(unready.c_str());
  if (!socket || ::bind(socket.get(), generic(*address), sizeof *address) != 0 ||
      ::chmod(unready.c_str(), 0600) != 0 || ::listen(socket.get(), backlog) != 0 ||
      ::rename(unready.c_str(), path.c_str()) != 0) {
    const int why = errno;
    ::unlink(unready.c_str());
    return fail(Code::try_again, fmt::format("cannot listen on {}: {}", quoted(path, 300), errno_text(why)));
  }
  return socket;
}

Result<Fd> connect_to(const std::string& path, Duration within) {
  const auto address = address_of(path);
  if (!address) return too_long(path);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail(Code::try_again, fmt::format("no socket: {}", errno_text(errno)));
  // Where the queue is full, connect waits for as long as a write may.
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(within).count();
  const timeval limit{.tv_sec = whole / 1'000'000, .tv_usec = std::max<long>(whole % 1'000'000, 1)};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int status = 0;
  while ((status = ::connect(socket.get(), generic(*address), sizeof *address)) != 0 && errno == EINTR) {
  }
  if (status != 0) {
    const bool nobody = errno == ENOENT || errno == ECONNREFUSED;
    if (nobody) return fail(Code::not_found, fmt::format("no launcher listens on {}", path));
    const auto why = errno == EAGAIN ? std::string("it does not answer") : errno_text(errno);
    return fail(Code::unreachable, fmt::format("cannot connect to {}: {}", path, why));
  }
  if (!may_talk(peer_of(socket.get()).uid, ::geteuid()))
    return fail(Code::refused, fmt::format("another user listens on {}", path));
  return socket;
}

Peer peer_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {};
  return {credentials.uid, credentials.pid};
}

pid_t listener_of(const std::string& path, Duration within) {
  const auto socket = connect_to(path, within);
  return socket ? peer_of(socket->get()).pid : 0;
}

bool may_talk(uid_t peer, uid_t own) { return peer == own || peer == 0; }

}  // namespace trainrun::control
