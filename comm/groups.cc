#include "comm/groups.h"

#include <algorithm>
#include <utility>

namespace trainrun::comm {

Groups::Opening::Opening(Groups& groups, const std::string& name, std::size_t members, std::string operation)
    : groups_(groups) {
  const std::lock_guard lock(groups_.mutex_);
  at_ = groups_.openings_.insert(
      groups_.openings_.end(),
      {1, 0, number_of(name), static_cast<std::uint32_t>(members), std::move(operation)});
}

Groups::Opening::~Opening() {
  const std::lock_guard lock(groups_.mutex_);
  groups_.openings_.erase(at_);
}

Group& Groups::add(std::unique_ptr<Group> group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
  if (aborted_) groups_.back()->abort();
  if (closed_) groups_.back()->close();
  return *groups_.back();
}

void Groups::remove(const Group& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [&](const auto& other) { return other.get() == &group; });
}

void Groups::clear() {
  const std::lock_guard lock(mutex_);
  groups_.clear();
}

void Groups::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (const auto& group : groups_) group->abort();
}

void Groups::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& group : groups_) group->close();
}

bool Groups::broken() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->broken(); });
}

std::optional<Failure> Groups::why_broken() const {
  const std::lock_guard lock(mutex_);
  for (const auto& group : groups_)
    if (auto failure = group->why_broken()) return failure;
  return std::nullopt;
}

bool Groups::disagreed() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->disagreed(); });
}

Duration Groups::time_left(Instant now) const {
  const std::lock_guard lock(mutex_);
  auto left = Duration::max();
  for (const auto& group : groups_) left = std::min(left, group->time_left(now));
  return left;
}

void Groups::look_at_time(Instant now, Duration stood_still) {
  const std::lock_guard lock(mutex_);
  for (const auto& group : groups_) group->look_at_time(now, stood_still);
}

const char* Groups::backend() const {
  const std::lock_guard lock(mutex_);
  return groups_.empty() ? "local" : groups_.front()->backend();
}

Group::Progress Groups::progress() const {
  const std::lock_guard lock(mutex_);
  Group::Progress found;
  if (!groups_.empty()) found = groups_.front()->progress();
  if (!openings_.empty() && !found.in_operation()) found = openings_.front();
  for (const auto& group : groups_) {
    auto its = group->progress();
    const bool better =
        its.in_operation() != found.in_operation() ? its.in_operation() : its.mark > found.mark;
    if (better) found = std::move(its);
  }
  return found;
}

}  // namespace trainrun::comm
