// Where the sockets of running launchers lie, and what is asked of that place before it is trusted: a
// directory of ours alone, so that nobody else can put a socket there, or reach one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/fd.h"
#include "launcher/base/time.h"

namespace trainrun::control {

// Where launchers may have put their sockets, the best place first: XDG_RUNTIME_DIR/trainrun, where the
// system made such a directory and it is still there (a logout takes it away from under a tmux), else
// /tmp/trainrun-UID. Whoever asks looks at all: a launcher that was started by a batch system has no
// XDG_RUNTIME_DIR, though whoever asks has one, and the other way round. `xdg_runtime_dir` is the variable's
// value, or empty.
std::vector<std::string> places_to_look(std::string_view xdg_runtime_dir, uid_t uid);

std::string socket_path(const std::string& directory, std::string_view job_id);

// Nothing if `directory` is a real directory (no symbolic link) of this process's user, closed to others
// (0700), in a parent where nobody else could exchange it. Code::refused, or Code::not_found if it is not
// there.
Result<void> check_directory(const std::string& directory);
// Makes it (0700) if it is not there, and checks it.
Result<void> make_directory(const std::string& directory);

enum class Presence : std::uint8_t {
  alive,   // somebody listens, though perhaps slowly
  stale,   // a socket of ours whose launcher is gone
  absent,  // nothing, or nothing that is ours to judge
};
Presence look_at_socket(const std::string& path);

// The ids of the jobs whose launchers listen in a directory that was checked. Sockets of dead launchers are
// removed on the way, and the directory with the last of them.
std::vector<std::string> live_jobs(const std::string& directory);

// A socket that listens at `path`, mode 0600, non-blocking. It appears there complete, so that nobody can
// take it for a dead one. A dead one of the same name is replaced, a living one is an error. Code::config
// for a path that is too long for a socket, else Code::try_again.
Result<Fd> listen_at(const std::string& path);

// Connects within `within`; a queue of others is waited for. Code::not_found if nobody listens there,
// Code::refused if it is not our user's process that does.
Result<Fd> connect_to(const std::string& path, Duration within);

// Who is at the other end of a connected socket, as the kernel knows it. -1 if it does not say.
struct Peer {
  uid_t uid = static_cast<uid_t>(-1);
  pid_t pid = 0;
};
Peer peer_of(int socket);
// The process that listens there, as the kernel knows it: one that was stopped too. 0: nobody of ours.
pid_t listener_of(const std::string& path, Duration within);
// Only the user of the job, and root, who could do anything anyway.
bool may_talk(uid_t peer, uid_t own);

}  // namespace trainrun::control
