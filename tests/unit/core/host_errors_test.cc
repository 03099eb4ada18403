#include "launcher/core/host_errors.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::core;

namespace {

Error unknown_key(const std::string& host, const std::string& port, const std::string& print) {
  return {Code::host_key, host + ": key not known: " + print,
          "compare, then: scan " + port + host + " >> known   or else"};
}

using Told = std::vector<std::pair<std::string, std::string>>;

Told told(const std::vector<Error>& given) {
  HostErrors errors;
  std::vector<std::string> names;
  for (const auto& error : given) {
    errors.emplace_back(HostIndex{static_cast<std::uint32_t>(names.size())}, error);
    names.push_back(error.message.substr(0, error.message.find(':')));
  }
  Told out;
  for (const auto& error : grouped(errors, [&](HostIndex host) { return names[host.value]; }))
    out.emplace_back(error.message, error.hint);
  return out;
}

}  // namespace

TEST_CASE("hosts that need the same command are named in one, each port in its own") {
  CHECK(told({unknown_key("a", "", "1"),
              unknown_key("b", "-p 2222 ", "2"),
              unknown_key("c", "", "3"),
              {Code::auth, "d: no key", "ssh-add"},
              unknown_key("e", "", "4"),
              unknown_key("f", "-p 2222 ", "5")}) ==
        Told{{"a: key not known: 1", ""},
             {"b: key not known: 2", ""},
             {"c: key not known: 3", ""},
             {"d: no key", "ssh-add"},
             {"e: key not known: 4", "compare, then: scan a c e >> known   or else"},
             {"f: key not known: 5", "compare, then: scan -p 2222 b f >> known   or else"}});
}

TEST_CASE("hosts whose key has changed need one command too") {
  const auto changed = [](const std::string& host, const std::string& old) {
    return Error{Code::host_key, host + ": CHANGED",
                 "if: ssh-keygen -f /k -R '" + old + "' && ssh-keyscan -H -t t " + host + " >> /k"};
  };
  CHECK(told({changed("a", "a")}) ==
        Told{{"a: CHANGED", "if: ssh-keygen -f /k -R 'a' && ssh-keyscan -H -t t a >> /k"}});
  CHECK(told({changed("a", "a"), changed("b", "[b]:2")}) ==
        Told{{"a: CHANGED", ""},
             {"b: CHANGED",
              "if: for h in 'a' '[b]:2'; do ssh-keygen -f /k -R \"$h\"; done && ssh-keyscan -H -t t a b >> "
              "/k"}});
}

TEST_CASE("hosts with one key are one line, with one command for all") {
  CHECK(told({unknown_key("a", "", "1"), unknown_key("b", "", "1"), unknown_key("c", "", "1"),
              unknown_key("d", "", "1")}) == Told{{"4 hosts: key not known: 1 (a, b, c and d)",
                                                   "compare, then: scan a b c d >> known   or else"}});
}

TEST_CASE(
    "up to three hosts that fail alike are told one by one, more in one line with the first one's hint") {
  const auto failed = [](const std::string& host) {
    return Error{Code::unreachable, host + ": no route", "try " + host};
  };
  CHECK(told({failed("a"), failed("b"), failed("c")}).size() == 3);
  CHECK(told({failed("a"), failed("b"), failed("c"), failed("d")}) ==
        Told{{"4 hosts: no route (a, b, c and d)", "try a"}});
}
