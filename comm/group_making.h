// Groups that ranks are making, while some wait for members that have not come: who waits for whom, and
// whether they would for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainrun::comm {

struct Making {
  std::string name;                  // of the group, the same on all its ranks
  std::vector<std::uint32_t> ranks;  // ascending
};

// "a group of ranks 0-3".
std::string words_of(const Making& making);

// Its ranks, for others to read.
std::string list_of(const Making& making);
std::optional<Making> making_of(std::string_view name, std::string_view list);

struct Waiting {
  std::uint32_t rank;
  Making making;
};

// What is asked of the others, one answer at a time.
struct Questions {
  std::function<std::optional<Making>(std::uint32_t rank)> making_of;  // nothing: it waits for no group
  // True also where that is not known.
  std::function<bool(std::uint32_t rank, const Making& making)> has_come;
  // How many ranks are asked what they make, at most: of the own group, and further on.
  std::size_t of_members, further;
};

// Ranks of which each waits for the next to come to its group, and the last for the first: none of them ever
// goes on, unless it makes groups on several threads. The first is the one with the lowest number; all of
// them find the same one, where there is one. Empty: `own` is in none. Members are asked about from the one
// at `from` on.
std::vector<Waiting> find_ring(const Waiting& own, std::size_t from, const Questions& questions);

// Looks again and again. A ring is one when two looks, one after the other, have found it: another thread of
// its ranks may just have been about to come. Not thread-safe.
class RingWatch {
 public:
  RingWatch(Waiting own, Questions questions) : own_(std::move(own)), questions_(std::move(questions)) {}
  std::vector<Waiting> look();

 private:
  Waiting own_;
  Questions questions_;
  std::size_t from_ = 0;
  std::vector<std::uint32_t> suspected_;
};

// Of a ring, ascending.
std::vector<std::uint32_t> ranks_in(const std::vector<Waiting>& ring);
// "rank 0 makes a group of ranks 0, 1, rank 1 makes ...: each waits for the next".
std::string words_of(const std::vector<Waiting>& ring);

}  // namespace trainrun::comm
