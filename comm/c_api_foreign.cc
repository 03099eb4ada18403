// The C interface for programs whose data goes through another library.
#include "comm/c_handles.h"
#include "comm/trainrun_foreign.h"

using trainrun::comm::guarded;
using trainrun::comm::invalid;
using trainrun::comm::Outcome;

namespace {

// What was given out last to this thread.
thread_local std::string value;

std::string text(const void* data, std::size_t bytes) {
  return bytes == 0 ? std::string() : std::string(static_cast<const char*>(data), bytes);
}

std::vector<std::string> list(const char* const* words, std::size_t count) {
  return words == nullptr ? std::vector<std::string>() : std::vector<std::string>(words, words + count);
}

}  // namespace

trc_status trc_foreign_sockets(trc_world* world, const char* const* own, size_t own_count,
                               const char* const* peers, size_t peer_count) {
  if (world == nullptr) return invalid("trc_foreign_sockets in no world");
  return guarded(world->group, [&]() -> Outcome<void> {
    auto* const watcher = world->world->watcher();
    if (watcher == nullptr) return {};
    return watcher->foreign().name(list(own, own_count), list(peers, peer_count));
  });
}

trc_status trc_foreign_failed(trc_world* world, const char* operation, const char* text, int timed_out) {
  if (world == nullptr || operation == nullptr || text == nullptr)
    return invalid("a world, the name of an operation and what it said are needed");
  return guarded(world->group, [&]() -> Outcome<void> {
    return tl::unexpected(world->world->foreign_failure(operation, timed_out != 0, text));
  });
}

trc_status trc_foreign_over(trc_world* world) {
  if (world == nullptr) return invalid("trc_foreign_over of no world");
  return guarded(world->group, [&]() -> Outcome<void> {
    auto* const watcher = world->world->watcher();
    if (watcher == nullptr) return {};
    const auto verdict = watcher->verdict();
    if (!verdict) return {};
    return tl::unexpected(*verdict);
  });
}

trc_status trc_foreign_steps(trc_world* world, uint64_t done) {
  if (world == nullptr) return invalid("trc_foreign_steps in no world");
  return guarded(world->group, [&]() -> Outcome<void> {
    if (auto* const watcher = world->world->watcher(); watcher != nullptr)
      done == 0 ? watcher->steps().expect() : watcher->steps().done(done);
    return {};
  });
}

trc_status trc_foreign_pause(trc_world* world, int on) {
  if (world == nullptr) return invalid("trc_foreign_pause in no world");
  return guarded(world->group, [&]() -> Outcome<void> {
    if (auto* const watcher = world->world->watcher(); watcher != nullptr) watcher->steps().pause(on != 0);
    return {};
  });
}

trc_status trc_foreign_put(trc_world* world, const char* key, const void* data, size_t bytes) {
  if (world == nullptr || key == nullptr || (data == nullptr && bytes > 0))
    return invalid("a world, a key and bytes are needed");
  return guarded(world->group, [&] { return world->world->put(key, text(data, bytes)); });
}

trc_status trc_foreign_compare_and_set(trc_world* world, const char* key, const void* expected,
                                       size_t expected_bytes, const void* desired, size_t bytes,
                                       const void** data, size_t* data_bytes) {
  if (world == nullptr || key == nullptr || (desired == nullptr && bytes > 0) ||
      (expected == nullptr && expected_bytes > 0) || data == nullptr || data_bytes == nullptr)
    return invalid("a world, a key, two values and places for the answer are needed");
  return guarded(world->group, [&]() -> Outcome<void> {
    auto now = world->world->compare_and_set(key, text(expected, expected_bytes), text(desired, bytes));
    if (!now) return tl::unexpected(now.error());
    value = std::move(*now);
    *data = value.data();
    *data_bytes = value.size();
    return {};
  });
}

trc_status trc_foreign_get(trc_world* world, const char* key, int64_t wait_ms, const void** data,
                           size_t* bytes) {
  if (world == nullptr || key == nullptr || data == nullptr || bytes == nullptr)
    return invalid("a world, a key and places for the answer are needed");
  return guarded(world->group, [&]() -> Outcome<void> {
    auto found = world->world->get(key, trainrun::milliseconds(wait_ms));
    if (!found) return tl::unexpected(found.error());
    value = std::move(*found);
    *data = value.data();
    *bytes = value.size();
    return {};
  });
}
