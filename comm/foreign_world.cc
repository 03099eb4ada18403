// What a world does for a program whose data goes through another library.
#include <algorithm>
#include <utility>

#include "comm/world.h"

namespace trainrun::comm {

Failure World::foreign_failure(const std::string& operation, bool timed_out, const std::string& text) {
  if (!watcher_) return fail(TRC_TRANSPORT, operation + ": " + text).value();
  auto failure = explain(operation, timed_out, timed_out ? std::string() : text);
  watcher_->foreign().shut();
  groups_.abort();
  return failure;
}

Outcome<void> World::put(std::string key, std::string value) {
  if (!client_) return fail(TRC_INVALID, "without a launcher there is nobody to tell");
  const std::lock_guard lock(client_mutex_);
  if (const auto told = client_->put(std::move(key), std::move(value)); !told)
    return tl::unexpected(failure_of(told.error()));
  return {};
}

Outcome<std::string> World::get(std::string key, Duration within) {
  if (!client_) return fail(TRC_INVALID, "without a launcher there is nobody to ask");
  const std::lock_guard lock(client_mutex_);
  const auto values = client_->wait({std::move(key)}, std::max<Duration>(within, Duration::zero()));
  if (!values) return tl::unexpected(failure_of(values.error()));
  return values->front();
}

Outcome<std::string> World::compare_and_set(std::string key, std::string expected, std::string desired) {
  if (!client_) return fail(TRC_INVALID, "without a launcher there is nobody to ask");
  const std::lock_guard lock(client_mutex_);
  auto known = expected.empty() ? std::nullopt : std::optional(std::move(expected));
  const auto swapped = client_->compare_and_set(std::move(key), std::move(known), std::move(desired));
  if (!swapped) return tl::unexpected(failure_of(swapped.error()));
  return swapped->current.value_or(std::string());
}

}  // namespace trainrun::comm
