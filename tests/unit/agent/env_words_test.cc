#include "launcher/agent/env_words.h"

#include <doctest/doctest.h>

#include <string>

namespace trainrun::agent {
namespace {

std::vector<std::string> texts(const std::vector<const char*>& words) { return {words.begin(), words.end()}; }

TEST_CASE("words of an environment") {
  const EnvWords none;
  SUBCASE("the last entry of a name counts, also one of what is added") {
    const EnvWords words({{"B", "1"}, {"A", "x=y"}, {"B", "2"}, {"C", ""}}, {{"C", "3"}});
    CHECK(texts(words.with(none)) == std::vector<std::string>{"A=x=y", "B=2", "C=3"});
  }
  SUBCASE("what is over replaces by the whole name") {
    const EnvWords base({{"LONG", "a"}, {"PATH", "/bin"}, {"PATHS", "b"}, {"Z", ""}});
    const EnvWords over({{"PATH", "/usr/bin"}, {"AA", "1"}, {"ZZ", "2"}});
    CHECK(texts(base.with(over)) ==
          std::vector<std::string>{"LONG=a", "PATHS=b", "Z=", "AA=1", "PATH=/usr/bin", "ZZ=2"});
    CHECK(texts(none.with(over)) == std::vector<std::string>{"AA=1", "PATH=/usr/bin", "ZZ=2"});
    CHECK(texts(base.with(none)).size() == 4);
  }
  SUBCASE("written anew") {
    EnvWords words(wire::EnvPairs{{"A", "1"}});
    words.write({{"B", std::string(5000, 'b')}});
    CHECK(texts(words.with(none)) == std::vector<std::string>{"B=" + std::string(5000, 'b')});
  }
}

}  // namespace
}  // namespace trainrun::agent
