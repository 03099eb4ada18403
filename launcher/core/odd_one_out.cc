#include "launcher/core/odd_one_out.h"

#include <algorithm>
#include <functional>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

using Trait = std::function<std::string(const Look&)>;

// The place of the one whose trait is not that of all others. Of two ranks that differ neither is the odd
// one.
std::optional<std::size_t> different(const std::vector<Look>& looks, const Trait& trait) {
  for (std::size_t odd = 0; odd < looks.size() && looks.size() > 2; ++odd) {
    const auto& other = looks[odd == 0 ? 1 : 0];
    const auto theirs = trait(other);
    const bool alike = std::all_of(looks.begin(), looks.end(), [&](const auto& look) {
      return &look == &looks[odd] ? trait(look) != theirs : trait(look) == theirs;
    });
    if (alike) return odd;
  }
  return std::nullopt;
}

// The one that fell silent long before all others.
std::optional<std::size_t> long_silent(const std::vector<Look>& looks) {
  if (looks.size() < 3) return std::nullopt;
  const auto silence = [](const Look& look) { return look.silent.value_or(Duration::max()); };
  const auto odd = std::max_element(looks.begin(), looks.end(),
                                    [&](const Look& a, const Look& b) { return silence(a) < silence(b); });
  const bool long_before = std::all_of(looks.begin(), looks.end(), [&](const Look& look) {
    return &look == &*odd || (look.silent && *look.silent * 2 < silence(*odd) - seconds(1));
  });
  if (!long_before) return std::nullopt;
  return static_cast<std::size_t>(odd - looks.begin());
}

// The kernel's names differ from one version to the next: "futex_wait_queue_me", "futex_do_wait".
std::string place_of(const std::string& wait_channel) {
  return wait_channel.find("futex") == wait_channel.npos ? wait_channel : "a lock (futex)";
}

}  // namespace

std::optional<OddOne> odd_one_out(const std::vector<Look>& looks) {
  const auto found = [&](std::size_t odd, const Trait& trait) {
    const auto& look = looks[odd];
    OddOne out{look.rank, trait(look), trait(looks[odd == 0 ? 1 : 0]), look.silent, {}};
    for (const auto& other : looks)
      if (&other != &look) out.others.push_back(other.rank);
    return out;
  };
  const Trait work = [](const Look& look) {
    return look.stopped ? "is stopped" : look.busy ? "is running" : "sleeps";
  };
  if (const auto odd = different(looks, work)) return found(*odd, work);
  const Trait operation = [](const Look& look) {
    return look.operation.empty() ? "is in no collective" : "is " + look.operation;
  };
  if (const auto odd = different(looks, operation)) return found(*odd, operation);
  // Ranks of MPI spin while they wait, and inside of it no two are alike.
  const bool frames =
      std::all_of(looks.begin(), looks.end(), [](const auto& look) { return look.frame.seen; });
  const Trait mpi = [](const Look& look) {
    return look.frame.mpi.empty() ? "is in no MPI function" : "is in " + look.frame.mpi;
  };
  if (frames)
    if (const auto odd = different(looks, mpi)) return found(*odd, mpi);
  const Trait silence = [](const Look& look) {
    return look.silent ? "prints nothing since " + format_duration(*look.silent) : "has printed nothing";
  };
  if (const auto odd = long_silent(looks)) return found(*odd, silence);
  const bool all_sleep = std::none_of(looks.begin(), looks.end(), [](const auto& look) { return look.busy; });
  const Trait frame = [](const Look& look) { return "is in " + look.frame.name; };
  if (frames && all_sleep)
    if (const auto odd = different(looks, frame)) return found(*odd, frame);
  const bool places =
      std::none_of(looks.begin(), looks.end(), [](const auto& look) { return look.waits_in.empty(); });
  const Trait place = [](const Look& look) { return "waits in " + place_of(look.waits_in); };
  if (places && all_sleep)
    if (const auto odd = different(looks, place)) return found(*odd, place);
  return std::nullopt;
}

}  // namespace trainrun::core
