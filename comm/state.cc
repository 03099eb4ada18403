#include "comm/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "launcher/base/hash.h"
#include "launcher/base/strings.h"

namespace trainrun::comm {
namespace {

constexpr std::size_t max_name = 255;
constexpr std::size_t length_bytes =
    sizeof(std::uint64_t);  // goes before a blob; all ranks have one byte order

// What each rank tells of itself before anything else, as numbers that an allgather carries.
struct Standing {
  std::int64_t version, was_member, layout_hash, layout_size, state_size;
};
constexpr std::size_t standing_fields = sizeof(Standing) / sizeof(std::int64_t);

std::int64_t hash_of(const std::string& text) { return static_cast<std::int64_t>(fnv1a(text)); }

// The first line that one layout has and the other lacks, in words.
std::string difference(const std::string& ours, const std::string& theirs) {
  const auto mine = split(ours, '\n'), other = split(theirs, '\n');
  for (const auto& line : mine)
    if (std::find(other.begin(), other.end(), line) == other.end()) return std::string(line);
  return "less";
}

}  // namespace

Outcome<void> State::insert(const std::string& name, Entry entry) {
  if (name.empty() || name.size() > max_name || name.find('\n') != std::string::npos)
    return fail(TRC_INVALID, fmt::format("{} cannot be the name of a part of a state", quoted(name)));
  if (version_ != 0)
    return fail(TRC_INVALID, fmt::format("{} comes too late: the state was saved already", quoted(name)));
  if (!entries_.emplace(name, std::move(entry)).second)
    return fail(TRC_INVALID, fmt::format("the state has {} already", quoted(name)));
  return {};
}

Outcome<void> State::add(const std::string& name, void* data, std::size_t bytes) {
  if (data == nullptr) {
    if (bytes > 0) return fail(TRC_INVALID, fmt::format("{} is a null buffer", quoted(name)));
    static char nothing;
    data = &nothing;
  }
  return insert(name, {data, bytes});
}

Outcome<void> State::add_blob(const std::string& name) { return insert(name, {}); }

Outcome<void> State::set_blob(const std::string& name, std::string value) {
  const auto at = entries_.find(name);
  if (at == entries_.end() || at->second.data != nullptr)
    return fail(TRC_INVALID, fmt::format("the state has no blob {}", quoted(name)));
  at->second.blob = std::move(value);
  return {};
}

const std::string* State::blob(const std::string& name) const {
  const auto at = entries_.find(name);
  return at == entries_.end() || at->second.data != nullptr ? nullptr : &at->second.blob;
}

std::string State::layout() const {
  std::string text;
  for (const auto& [name, entry] : entries_)
    text += entry.data == nullptr ? fmt::format("blob {}\n", quoted(name))
                                  : fmt::format("{} of {} bytes\n", quoted(name), entry.bytes);
  return text;
}

std::string State::pack() const {
  std::size_t total = 0;
  for (const auto& [name, entry] : entries_)
    total += entry.data == nullptr ? length_bytes + entry.blob.size() : entry.bytes;
  std::string bytes(total, '\0');
  auto* to = bytes.data();
  const auto put = [&](const void* from, std::size_t size) {
    if (size > 0) std::memcpy(to, from, size);
    to += size;
  };
  for (const auto& [name, entry] : entries_) {
    if (entry.data != nullptr) {
      put(entry.data, entry.bytes);
      continue;
    }
    const std::uint64_t length = entry.blob.size();
    put(&length, sizeof length);
    put(entry.blob.data(), entry.blob.size());
  }
  return bytes;
}

bool State::unpack(std::string_view bytes) {
  std::vector<std::string_view> parts;
  for (const auto& [name, entry] : entries_) {
    std::uint64_t length = entry.bytes;
    if (entry.data == nullptr) {
      if (bytes.size() < length_bytes) return false;
      std::memcpy(&length, bytes.data(), length_bytes);
      bytes.remove_prefix(length_bytes);
    }
    if (bytes.size() < length) return false;
    parts.push_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  if (!bytes.empty()) return false;
  auto part = parts.begin();
  for (auto& [name, entry] : entries_) {
    if (entry.data == nullptr)
      entry.blob = *part;
    else if (!part->empty())
      std::memcpy(entry.data, part->data(), part->size());
    ++part;
  }
  return true;
}

void State::save() {
  snapshot_ = pack();
  ++version_;
  ++saves_;
}

void State::restore() {
  if (version_ != 0) unpack(snapshot_);
}

Outcome<void> State::sync(Group& group, int rank, int size) {
  const auto ours = layout();
  auto current = pack();
  const Standing mine{static_cast<std::int64_t>(version_), seasoned_ ? 1 : 0, hash_of(ours),
                      static_cast<std::int64_t>(ours.size()), static_cast<std::int64_t>(current.size())};
  const auto count = static_cast<std::size_t>(size);
  std::vector<Standing> all(count);
  if (auto met = group.allgather(&mine, all.data(), standing_fields, TRC_I64); !met) return met;
  // max_element gives the first of equals, which is the lowest rank.
  const auto newest = std::max_element(all.begin(), all.end(), [](const Standing& a, const Standing& b) {
    return std::pair(a.was_member, a.version) < std::pair(b.was_member, b.version);
  });
  const auto root = static_cast<std::size_t>(newest - all.begin());

  const auto strange = std::find_if(all.begin(), all.end(), [&](const Standing& other) {
    return other.layout_hash != newest->layout_hash || other.layout_size != newest->layout_size;
  });
  if (strange != all.end()) {
    std::int64_t longest = 0;
    for (const auto& other : all) longest = std::max(longest, other.layout_size);
    const auto width = static_cast<std::size_t>(longest);
    auto padded = ours;
    padded.resize(width, '\n');
    std::string gathered(width * count, '\0');
    if (auto met = group.allgather(padded.data(), gathered.data(), width, TRC_U8); !met) return met;
    const auto other = static_cast<std::size_t>(strange - all.begin());
    const auto text_of = [&](std::size_t r) { return gathered.substr(r * width, width); };
    return fail(TRC_MISMATCH, fmt::format("the states differ: rank {} has {}, rank {} has {}", root,
                                          difference(text_of(root), text_of(other)), other,
                                          difference(text_of(other), text_of(root))));
  }

  // What arrives is kept apart until it is whole: a failure in between must not cost a snapshot.
  if (static_cast<std::size_t>(rank) != root) current.resize(static_cast<std::size_t>(newest->state_size));
  if (auto sent = group.broadcast(current.data(), current.size(), TRC_U8, static_cast<int>(root)); !sent)
    return sent;
  if (static_cast<std::size_t>(rank) != root && !unpack(current))
    return fail(TRC_INTERNAL, fmt::format("the state of rank {} does not fit", root));
  snapshot_ = std::move(current);
  // Newer than any before, so that one who has it is not overruled by one who missed it.
  version_ = static_cast<std::uint64_t>(newest->version) + 1;
  seasoned_ = true;
  return {};
}

}  // namespace trainrun::comm
