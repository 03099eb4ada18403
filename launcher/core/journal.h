// The journal of a job: all that ever came into its JobMachine, so that somebody else can let the machine
// decide again (core/replay.h). Pure: bytes in, bytes out; output/journal_file writes them.
//
//   "trainrun journal SCHEMA\n", then records, each
//   u32 length of the payload, u64 FNV-1a of the payload (both big-endian), payload: one Entry, encoded
//
// The first record is the Header. The file may end anywhere: who wrote it may have been killed. Nothing in it
// is secret: of variables of the environment there are names alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "launcher/base/error.h"
#include "launcher/base/time.h"
#include "launcher/core/job_action.h"
#include "launcher/core/job_event.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"
#include "launcher/core/record.h"

namespace trainrun::core::journal {

// Grows with every change of what the bytes mean: of an event, of the spec, of a value in them. A test says
// when that is (tests/unit/core/journal_test.cc).
constexpr int schema = 15;

struct Header {
  std::string version, build;  // of the program: its number, and what its linker made of its bytes
  std::string time;            // of the wall clock
  Instant began{};             // of the launcher's clock; entries count from here
  JobSpec job;
  Placement first;
  template <class V>
  void fields(V& v) {
    v("version", version), v("build", build), v("time", time), v("began", began), v("job", job),
        v("first", first);
  }
};
struct Step {
  Duration since{};  // the start
  JobEvent event;
  std::uint64_t decided = 0;  // hash_of() the actions
  template <class V>
  void fields(V& v) {
    v("since", since), v("event", event), v("decided", decided);
  }
};
// Nothing follows.
struct End {
  enum class Why : std::uint8_t {
    job_over,
    too_slow  // what follows is missing: the file did not take it in time
  };
  Why why = Why::job_over;
  template <class V>
  void fields(V& v) {
    v("why", why);
  }
};
constexpr bool is_known(End::Why why) { return why <= End::Why::too_slow; }
using Entry = std::variant<Header, Step, End>;

std::uint64_t hash_of(const JobActions& actions);

// The beginning of a file. Values of variables are left out.
std::string begin(Header header);
std::string record(Duration since, const JobEvent& event, const JobActions& actions);
std::string record(End::Why why);

// The file begins as a journal does, or is empty.
bool may_be_journal(std::string_view begins);

class Reader {
 public:
  // `bytes` must outlive it.
  static Result<Reader> open(std::string_view bytes);

  [[nodiscard]] const Header& header() const { return header_; }
  // The next one; nothing at the end of the file. Never a Header.
  Result<std::optional<Entry>> next();
  // After the end: the last record is not all there.
  [[nodiscard]] bool torn() const { return torn_; }

 private:
  explicit Reader(std::string_view rest) : rest_(rest) {}
  Result<std::optional<std::string_view>> payload();

  std::string_view rest_;
  std::size_t number_ = 0;  // of the latest record; the header is 0
  bool torn_ = false;
  Header header_;
};

}  // namespace trainrun::core::journal
