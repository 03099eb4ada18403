#include "comm/backends/shm/meeting.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "comm/backends/shm/layout.h"
#include "comm/backends/shm/shm_backend.h"
#include "comm/backends/shm/usable_cores.h"
#include "launcher/base/strings.h"

namespace trainrun::comm {
namespace {

using Nonce = decltype(Control::nonce);

constexpr std::string_view yes = "yes";
constexpr std::string_view objection = "objection ";

// "yes NONCE PLACE", or why there is nothing.
std::string offer_text(const Nonce& nonce, const std::string& place) {
  const std::string_view bytes(reinterpret_cast<const char*>(nonce.data()), nonce.size());
  return fmt::format("{} {} {}", yes, hex(bytes), place);
}

class Meeting {
 public:
  explicit Meeting(const ShmMeeting& meeting) : m_(meeting) {}

  Outcome<ShmMet> attempt(Segment::Kind kind, std::size_t number) {
    prefix_ = fmt::format("{}shm/{}/", m_.scope, number);
    std::optional<Segment> segment;
    std::string answer = m_.objection.empty() ? std::string() : std::string(objection) + m_.objection;
    if (m_.rank == 0) {
      std::string offer = answer;
      if (offer.empty()) offer = make(kind, segment);
      if (!segment) answer = offer;
      if (auto put = m_.client.put(prefix_ + "offer", offer); !put)
        return tl::unexpected(failure_of(put.error()));
    } else if (answer.empty()) {
      const auto offer = m_.client.wait({prefix_ + "offer"}, left());
      if (!offer) return tl::unexpected(failure_of(offer.error()));
      answer = take(offer->front(), segment);
    }
    if (segment) {
      Layout(segment->data(), m_.ranks).cores(m_.rank) = own_cores();
      answer = yes;
    }
    return settle(std::move(segment), answer);
  }

 private:
  [[nodiscard]] Duration left() const {
    return std::max<Duration>(m_.deadline - std::chrono::steady_clock::now(), milliseconds(1));
  }

  // What to tell the others.
  std::string make(Segment::Kind kind, std::optional<Segment>& segment) {
    auto made = Segment::create(kind, Layout::bytes(m_.ranks), m_.folder);
    if (!made) return made.error().message;
    auto& control = Layout(made->data(), m_.ranks).control();
    if (::getrandom(control.nonce.data(), control.nonce.size(), 0) !=
        static_cast<ssize_t>(control.nonce.size()))
      return fmt::format("getrandom: {}", errno_text(errno));
    control.magic = shm_magic;
    control.ranks = m_.ranks;
    segment = std::move(*made);
    return offer_text(control.nonce, segment->place());
  }

  // Why it could not be mapped, or nothing.
  std::string take(const std::string& offer, std::optional<Segment>& segment) const {
    const auto words = split(offer, ' ');
    if (words.size() < 3 || words[0] != yes) return fmt::format("rank 0: {}", offer);
    const auto place = offer.substr(static_cast<std::size_t>(words[2].data() - words[0].data()));
    auto mapped = Segment::map(place, Layout::bytes(m_.ranks));
    if (!mapped) return mapped.error().message;
    const auto& control = Layout(mapped->data(), m_.ranks).control();
    // The number of a process means another one where processes are numbered anew.
    if (control.magic != shm_magic || control.ranks != m_.ranks || offer_text(control.nonce, place) != offer)
      return fmt::format("{} is not the memory that rank 0 made", place);
    segment = std::move(*mapped);
    return {};
  }

  // Hears all answers, so that everybody comes to the same end.
  Outcome<ShmMet> settle(std::optional<Segment> segment, const std::string& answer) {
    if (auto put = m_.client.put(fmt::format("{}{}", prefix_, m_.rank), answer); !put)
      return tl::unexpected(failure_of(put.error()));
    const auto answers = m_.client.gather(prefix_, m_.ranks, left());
    if (!answers) return tl::unexpected(failure_of(answers.error()));
    for (std::size_t rank = 0; rank < answers->size(); ++rank) {
      std::string_view said = (*answers)[rank];
      if (said == yes) continue;
      const bool objected = said.starts_with(objection);
      if (objected) said.remove_prefix(objection.size());
      return ShmMet{nullptr, fmt::format("rank {}: {}", rank, said), objected};
    }
    segment->close_door();
    cpu_set_t together;
    CPU_ZERO(&together);
    const Layout layout(segment->data(), m_.ranks);
    for (std::uint32_t rank = 0; rank < m_.ranks; ++rank) CPU_OR(&together, &together, &layout.cores(rank));
    const bool spins = m_.ranks * m_.threads <= usable_cores(together);
    return ShmMet{std::make_unique<ShmBackend>(std::move(*segment), m_.rank, m_.ranks, spins), {}};
  }

  const ShmMeeting& m_;
  std::string prefix_;
};

}  // namespace

Outcome<ShmMet> meet_in_memory(const ShmMeeting& meeting) {
  ShmMet last;
  last.why_not = "there is no way to share memory";
  for (std::size_t i = 0; i < meeting.kinds.size(); ++i) {
    auto met = Meeting(meeting).attempt(meeting.kinds[i], i);
    if (!met || met->backend || met->objected) return met;
    last = std::move(*met);
  }
  return last;
}

}  // namespace trainrun::comm
