// Discovery's parser and poller against chance: no input may break them, and their promises hold whatever
// comes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "host-discovery/host_key.h"
#include "host-discovery/poller.h"
#include "host-discovery/script.h"

namespace trainrun::hosts {
namespace {

std::string printed(const std::vector<Host>& hosts) {
  std::string out;
  for (const auto& host : hosts) {
    out += host.name.find(':') == std::string::npos ? host.name : "[" + host.name + "]";
    if (host.slots_given) out += fmt::format(":{}", host.slots);
    if (!host.user.empty()) out += " user=" + host.user;
    if (host.port != 0) out += fmt::format(" port={}", host.port);
    if (!host.identity.empty()) out += " identity=" + host.identity;
    out += '\n';
  }
  return out;
}

TEST_CASE("random texts give an error of one line, or hosts that survive being printed and read again") {
  std::mt19937 random(20240501);  // fixed: a failure repeats
  const std::string_view pieces[] = {
      "a",     "gpu1",      "b",     ":",          "8",    "0",   "!",       "\n",       "\r\n",  " ",
      "\t",    "#",         "/*",    "*/",         "//",   "=",   "slots=",  "gpus=",    "user=", "port=",
      "zone=", "identity=", "[",     "]",          "-",    ",",   "fd00::1", "10.0.0.1", "@",     "{",
      "}",     "\"host\":", "\"a\"", "\"slots\":", "null", "1.5", "\xff",    "\x01",     ".",     "ssh://"};
  int good = 0;
  for (int round = 0; round < 60'000; ++round) {
    std::string text;
    for (auto length = random() % 16; length > 0; --length) text += pieces[random() % std::size(pieces)];
    CAPTURE(text);
    const auto listing = parse_script(text, 3);
    if (!listing) {
      CHECK_FALSE(listing.error().message.empty());
      CHECK(listing.error().message.find('\n') == std::string::npos);
      CHECK(listing.error().message.size() < 1000);
      continue;
    }
    for (const auto& host : listing->hosts) {
      CHECK(host.slots >= 1);
      CHECK_FALSE(host.name.starts_with('-'));
      CHECK_FALSE(listing->removes(host));
    }
    good += listing->hosts.empty() ? 0 : 1;
    // Defaults are added where a name stood twice, so those would read otherwise with other defaults.
    const auto again = parse_script(printed(listing->hosts), 3);
    REQUIRE(again);
    const auto same = [](const Host& a, const Host& b) {
      return a.name == b.name && a.user == b.user && a.port == b.port && a.identity == b.identity &&
             (!a.slots_given || a.slots == b.slots);
    };
    CHECK(std::equal(listing->hosts.begin(), listing->hosts.end(), again->hosts.begin(), again->hosts.end(),
                     same));
  }
  CHECK(good > 1000);  // the pieces do make hosts
}

// What the poller promised, checked against the answers themselves.
TEST_CASE(
    "random answers: adds at once, takes away after two looks or a mark, keeps the order, counts revisions") {
  std::mt19937 random(20240502);
  for (int life = 0; life < 300; ++life) {
    Poller poller;
    HostSet last;
    std::vector<Listing> looks;  // good ones since the last failure
    bool told_any = false, failing = false;
    for (int step = 0; step < 60; ++step) {
      Poller::Told told;
      Listing listing;
      const bool failure = random() % 6 == 0;
      if (failure) {
        told = poller.failure("no");
        looks.clear();
        CHECK_FALSE(told.hosts.has_value());
        CHECK(told.say.size() == (failing ? 0 : 1));
      } else {
        for (auto n = random() % 6; n > 0; --n) {
          const Host host{.name = std::string(1, static_cast<char>('a' + random() % 7)),
                          .slots = static_cast<int>(1 + random() % 4),
                          .slots_given = true};
          if (random() % 8 == 0) listing.removed.insert(host_key(host));
          listing.hosts.push_back(host);
        }
        REQUIRE(listing.tidy(1, {}));
        looks.push_back(listing);
        told = poller.answer(listing);
        CHECK(told.say.size() == (failing ? 1 : 0));
      }
      failing = failure;
      const auto& now = poller.hosts();
      CHECK(told.hosts.has_value() == (now.revision != last.revision));
      if (told.hosts) CHECK(*told.hosts == now);
      if (told_any && now.revision != last.revision) CHECK(now.hosts != last.hosts);
      if (now.revision == last.revision) CHECK(now.hosts == last.hosts);
      told_any = told_any || told.hosts.has_value();

      const auto in = [](const std::vector<Host>& hosts, const Host& host) {
        const auto found = std::find_if(hosts.begin(), hosts.end(),
                                        [&](const Host& each) { return host_key(each) == host_key(host); });
        return found == hosts.end() ? nullptr : &*found;
      };
      if (failure) continue;
      for (const auto& host : listing.hosts) {
        const auto* mine = in(now.hosts, host);
        REQUIRE(mine != nullptr);
        CHECK(mine->slots >= host.slots);
      }
      const auto* before = looks.size() >= 2 ? &looks[looks.size() - 2] : nullptr;
      for (const auto& gone : last.hosts) {
        if (in(now.hosts, gone) != nullptr) continue;
        const bool twice =
            before != nullptr && in(before->hosts, gone) == nullptr && in(listing.hosts, gone) == nullptr;
        CHECK((listing.removes(gone) || twice));
      }
      for (const auto& host : now.hosts) {
        const auto* was = in(last.hosts, host);
        if (was == nullptr || was->slots == host.slots) continue;
        const auto* seen = in(listing.hosts, host);
        if (host.slots > was->slots) {
          REQUIRE(seen != nullptr);
          CHECK(host.slots == seen->slots);
        } else {
          REQUIRE(before != nullptr);
          const auto* earlier = in(before->hosts, host);
          CHECK(host.slots ==
                std::max(earlier == nullptr ? 0 : earlier->slots, seen == nullptr ? 0 : seen->slots));
        }
      }
      // Two equal looks are the truth.
      if (before != nullptr) {
        for (const auto& host : now.hosts) {
          if (in(before->hosts, host) == nullptr) CHECK(in(listing.hosts, host) != nullptr);
        }
      }
      std::vector<std::string> kept_before, kept_now;
      for (const auto& host : last.hosts) {
        if (in(now.hosts, host) != nullptr) kept_before.push_back(host_key(host));
      }
      for (const auto& host : now.hosts) {
        if (in(last.hosts, host) != nullptr) kept_now.push_back(host_key(host));
      }
      CHECK(kept_before == kept_now);
      for (std::size_t i = 0; i < kept_now.size(); ++i) CHECK(host_key(now.hosts[i]) == kept_now[i]);
      last = now;
    }
  }
}

}  // namespace
}  // namespace trainrun::hosts
