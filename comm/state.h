// What a training must not lose: named memory of the program, and named blobs of any length. Saved as one
// snapshot, put back from it, and brought to what the most advanced rank has.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "comm/failure.h"
#include "comm/group.h"

namespace trainrun::comm {

class State {
 public:
  // `data` stays the program's. A name is given once; nothing is added once there is a snapshot.
  Outcome<void> add(const std::string& name, void* data, std::size_t bytes);
  Outcome<void> add_blob(const std::string& name);
  Outcome<void> set_blob(const std::string& name, std::string value);
  [[nodiscard]] const std::string* blob(const std::string& name) const;

  // Takes the snapshot.
  void save();
  // Puts everything back as the snapshot has it; nothing happens when there is none.
  void restore();
  // Collective. Everybody gets what one rank has now, and takes it as its snapshot: a rank that has been
  // synchronised before goes before a new one, then the newest snapshot counts, then the lowest rank.
  // TRC_MISMATCH on all ranks when they did not add the same; after any failure the snapshot is what it was.
  Outcome<void> sync(Group& group, int rank, int size);

  // How often save() was called.
  [[nodiscard]] std::uint64_t saves() const { return saves_; }

 private:
  struct Entry {
    void* data = nullptr;  // null: a blob
    std::size_t bytes = 0;
    std::string blob{};
  };
  Outcome<void> insert(const std::string& name, Entry entry);
  [[nodiscard]] std::string layout() const;
  [[nodiscard]] std::string pack() const;
  bool unpack(std::string_view bytes);  // false: it is not of this layout, and nothing has changed

  std::map<std::string, Entry> entries_;  // by name, so that the order of adding does not matter
  std::string snapshot_;
  std::uint64_t version_ = 0;  // of the snapshot; 0: there is none
  bool seasoned_ = false;      // has been synchronised
  std::uint64_t saves_ = 0;
};

}  // namespace trainrun::comm
