// Barriers under way: of which ranks, and who is there. "All ranks" is a word and no list, and a barrier of
// some finds its way to those who leave by an index, so that no step costs more than what it is about. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/store.h"

namespace trainrun::rendezvous {

struct Meeting {
  std::string name;
  std::vector<std::uint32_t> ranks;            // none: all
  std::map<std::uint32_t, WaiterNumber> here;  // by rank
};

class Meetings {
 public:
  // Null: there is none of this name.
  [[nodiscard]] const Meeting* find(const std::string& name) const;
  // `ranks` is what the first one to come named; later ones name the same.
  void enter(const std::string& name, const std::vector<std::uint32_t>& ranks, std::uint32_t rank,
             WaiterNumber waiter);
  // The meeting is over when nobody is there any more.
  void leave(const std::string& name, std::uint32_t rank);
  // Who is in a barrier that cannot be complete without the rank.
  [[nodiscard]] std::vector<WaiterNumber> waiting_for(std::uint32_t rank) const;

 private:
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Meeting> meetings_;
  std::unordered_map<std::string, std::uint64_t> number_of_;
  std::set<std::uint64_t> of_all_;
  std::set<std::pair<std::uint32_t, std::uint64_t>> named_in_;  // rank, meeting; of the others
};

}  // namespace trainrun::rendezvous
