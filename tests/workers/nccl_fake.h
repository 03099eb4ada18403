// libnccl_fake: looks like NCCL and CUDA's driver to a program, over memory of the host and TCP of the
// loopback. It shows how comm behaves whatever the library does; about NCCL it shows nothing.
//
// NCCL_FAKE has faults, "RANK:NAME=VALUE,..." with the rank of TRAINRUN_RANK, or * for all:
//   version=22703         what ncclGetVersion tells
//   id=fail               no unique id
//   init=slow:MS | hang | fail | die
//   op=fail:N | error:N | die:N | stall:N   the N-th operation: refused, an asynchronous error, the process's
//                         end, or never done on the device
//   abort=slow:MS | hang
//   cuda=none | broken    cuInit has no device; or events fail, as after a kernel that crashed
//   kernels=none          no code that this device can run
//   launch=fail:N         the N-th launch of a kernel fails
//   memory=little         none for more than 4 KiB
#pragma once

#include <arpa/inet.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace nccl_fake {

// The value of a fault of this process; nothing when it has none of the name.
std::optional<std::string> fault(const std::string& name);
// "slow:300" with the word "slow" is 300, "slow" alone 0; nothing for another word.
std::optional<long> number_in(const std::optional<std::string>& value, const std::string& word);
void pause_ms(long ms);

// What a rank sends to the root, before its bytes, and the root before those of an answer. An operation of
// all ranks is answered to all once all have come; one of two to the one that receives.
enum class What : std::uint32_t {
  hello,
  all_reduce,
  reduce,
  broadcast,
  reduce_scatter,
  all_gather,
  send,
  recv
};
struct Frame {
  What what{};
  std::int32_t rank = 0, peer = 0;  // peer: the root of an operation, or the other of two
  std::int32_t type = 0, op = 0;
  std::uint64_t count = 0, bytes = 0;
};

void send_at_once(int socket);
bool write_all(int fd, const void* data, std::size_t bytes);
bool read_all(int fd, void* data, std::size_t bytes);

// Serves one communicator on a thread of its own, as the process that made an id does. Gives the port.
std::uint16_t start_root();

std::size_t size_of(int type);
// out = all of `parts` (op) each other, of `count` elements.
void reduce_parts(void* out, const std::vector<const char*>& parts, std::uint64_t count, int type, int op);

// An operation of NCCL is put on a stream, and is done. What kernels of an aborted one would write may be
// gone.
enum class End { done, aborted };
void enqueue_on(void* stream);
void finish_on(void* stream, End end);
// Runs once all operations are done that are on the stream now.
void launch_on(void* stream, std::function<void()> kernel);
bool kernels_wait_on(void* stream);
// How much was enqueued on a stream, and how much of it is done, for events.
std::uint64_t enqueued_on(void* stream);
std::uint64_t done_on(void* stream);
void wait_until_done(void* stream, std::uint64_t number);

}  // namespace nccl_fake
