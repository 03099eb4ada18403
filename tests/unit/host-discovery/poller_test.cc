#include "host-discovery/poller.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace trainrun::hosts {
namespace {

// A poller that is asked in the script's own language and answers in one line: the hosts when they are told,
// "-" when not.
struct Scene {
  std::string look(std::string_view text, bool witness = true) {
    const auto listing = parse_script(text, 1);
    REQUIRE(listing);
    return shown(poller.answer(*listing, witness));
  }
  std::string fail(const std::string& why = "exited with code 1") { return shown(poller.failure(why)); }

  std::string shown(const Poller::Told& told) {
    for (const auto& line : told.say) said += line + "\n";
    if (!told.hosts) return "-";
    CHECK(*told.hosts == poller.hosts());
    CHECK(told.hosts->revision == ++revision);
    std::string out;
    for (const auto& host : told.hosts->hosts) {
      out += out.empty() ? "" : " ";
      out += fmt::format("{}:{}", host.name, host.slots);
    }
    return out;
  }

  Poller poller;
  std::uint64_t revision = 0;
  std::string said;
};

TEST_CASE("hosts and slots are added at once, and the same answer again tells nothing") {
  Scene scene;
  CHECK(scene.look("a:1\nb:2\n") == "a:1 b:2");
  CHECK(scene.look("a:1\nb:2\n") == "-");
  CHECK(scene.look("a:1\nb:4\nc:1\n") == "a:1 b:4 c:1");
  CHECK(scene.look("a:1\nb:4\nc:1\n") == "-");
  CHECK(scene.said.empty());
}

TEST_CASE("settled is what the last answer, given again, would not change") {
  Scene scene;
  CHECK_FALSE(scene.poller.settled());
  scene.look("a:2\nb:2\n");
  CHECK(scene.poller.settled());
  SUBCASE("not while a removal waits for the next look") {
    scene.look("a:2\n");
    CHECK_FALSE(scene.poller.settled());
    CHECK(scene.look("a:2\n") == "a:2");
    CHECK(scene.look("a:2\n") == "-");
    CHECK(scene.poller.settled());
  }
  SUBCASE("not after a look that confirms nothing") {
    scene.look("a:1\nb:2\n", false);
    CHECK_FALSE(scene.poller.settled());
    scene.look("a:1\nb:2\n");
    CHECK(scene.look("a:1\nb:2\n") == "a:1 b:2");
  }
  SUBCASE("but after one that takes a host away by its mark") {
    CHECK(scene.look("a:2\n!b\n") == "a:2");
    CHECK(scene.poller.settled());
  }
  SUBCASE("not after a failure") {
    scene.fail();
    CHECK_FALSE(scene.poller.settled());
  }
}

TEST_CASE("the first answer is told even when it names nobody") {
  Scene scene;
  CHECK(scene.look("").empty());
  CHECK(scene.look("") == "-");
  CHECK(scene.look("a\n") == "a:1");
}

TEST_CASE("a host that is missing goes when the next look agrees, and the others keep their order") {
  Scene scene;
  scene.look("a\nb\nc\n");
  CHECK(scene.look("c\na\n") == "-");
  CHECK(scene.look("c\na\n") == "a:1 c:1");
  CHECK(scene.look("b\nc\na\n") == "a:1 c:1 b:1");  // come back: last
}

TEST_CASE("a flap takes nothing away, however often, but two looks in a row do") {
  Scene scene;
  scene.look("a:2\nb:2\n");
  for (int i = 0; i < 5; ++i) {
    CHECK(scene.look("") == "-");
    CHECK(scene.look("a:2\nb:2\n") == "-");
  }
  CHECK(scene.look("") == "-");
  CHECK(scene.look("b:2\n") == "b:2");  // a was missing twice, b once
  CHECK(scene.look("") == "-");
  CHECK(scene.look("").empty());
  CHECK(scene.said.empty());
}

TEST_CASE("reordered answers change nothing") {
  Scene scene;
  scene.look("a\nb\nc\n");
  CHECK(scene.look("c\nb\na\n") == "-");
  CHECK(scene.look("b\nnew2\na\nnew1\nc\n") == "a:1 b:1 c:1 new2:1 new1:1");
}

TEST_CASE("fewer slots need two looks, and two that differ agree on the larger count") {
  Scene scene;
  scene.look("a:8\n");
  CHECK(scene.look("a:4\n") == "-");
  CHECK(scene.look("a:8\n") == "-");
  CHECK(scene.look("a:4\n") == "-");
  CHECK(scene.look("a:4\n") == "a:4");
  CHECK(scene.look("a:1\n") == "-");
  CHECK(scene.look("a:3\n") == "a:3");
  CHECK(scene.look("a:2\n") == "-");
  CHECK(scene.look("a:1\n") == "a:2");
  CHECK(scene.look("a:1\n") == "a:1");
}

TEST_CASE("a missing host has no slots, and so agrees with a look that saw fewer") {
  Scene scene;
  scene.look("a:8\n");
  CHECK(scene.look("a:4\n") == "-");
  CHECK(scene.look("") == "a:4");
  CHECK(scene.look("").empty());
  CHECK(scene.look("a:8\n") == "a:8");
  CHECK(scene.look("") == "-");
  CHECK(scene.look("a:2\n") == "a:2");
}

TEST_CASE("an explicit mark takes a host away at once, and only that") {
  Scene scene;
  scene.look("a:2\nb:2\nc:2\n");
  CHECK(scene.look("a:2\n!b\nc:2\n") == "a:2 c:2");
  CHECK(scene.look("a:2\nc:0\n") == "a:2");
  CHECK(scene.look("a:2\n!nobody\n") == "-");
}

TEST_CASE("a renamed host: the new name comes at once, the old one goes by two looks") {
  Scene scene;
  scene.look("gpu1:8\n");
  CHECK(scene.look("gpu1.lab:8\n") == "gpu1:8 gpu1.lab:8");
  CHECK(scene.look("gpu1.lab:8\n") == "gpu1.lab:8");
  CHECK(scene.look("GPU1.lab.:8\n") == "-");  // no other name
}

TEST_CASE("a failure keeps the last good answer and is said once, until it is good again") {
  Scene scene;
  scene.look("a\nb\n");
  for (int i = 0; i < 3; ++i) CHECK(scene.fail() == "-");
  CHECK(scene.said == "host discovery: exited with code 1; the last good answer stays (2 hosts)\n");
  CHECK(scene.look("a\nb\n") == "-");
  CHECK(scene.said.ends_with("\nhost discovery answers again: 2 hosts\n"));
  scene.said.clear();
  CHECK(scene.look("a\nb\n") == "-");
  CHECK(scene.said.empty());
  scene.fail("line 3: 'x y': no");
  CHECK(scene.said == "host discovery: line 3: 'x y': no; the last good answer stays (2 hosts)\n");
}

TEST_CASE("a failure of another kind is said too, each once, and of ever new ones a few") {
  Scene scene;
  scene.look("a\n");
  for (int i = 0; i < 2; ++i) scene.fail("it took longer than 1m00s"), scene.fail("not found");
  CHECK(scene.said ==
        "host discovery: it took longer than 1m00s; the last good answer stays (1 host)\n"
        "host discovery: not found; the last good answer stays (1 host)\n");
  for (int i = 0; i < 9; ++i) scene.fail("exited with code " + std::to_string(i));
  CHECK(std::count(scene.said.begin(), scene.said.end(), '\n') == 5);
  CHECK(
      scene.said.ends_with("code 2; the last good answer stays (1 host); no other failure is told before it "
                           "answers\n"));
  scene.look("a\n");
  scene.said.clear();
  scene.fail("not found");
  CHECK(scene.said == "host discovery: not found; the last good answer stays (1 host)\n");
}

TEST_CASE("first answers that are bad are said, and asking goes on") {
  Scene scene;
  CHECK(scene.fail() == "-");
  CHECK(scene.fail() == "-");
  CHECK(scene.said ==
        "host discovery: exited with code 1; there was no good answer yet, and it is asked again\n");
  CHECK(scene.look("a\n") == "a:1");
  CHECK(scene.said.ends_with("host discovery answers: 1 host\n"));
}

TEST_CASE("a failure between two looks breaks their row") {
  Scene scene;
  scene.look("a:4\nb\n");
  CHECK(scene.look("a:2\n") == "-");
  scene.fail();
  CHECK(scene.look("a:2\n") == "-");
  CHECK(scene.look("a:2\n") == "a:2");
}

TEST_CASE("a look too soon after another adds, but confirms no removal") {
  Scene scene;
  scene.look("a:4\nb\n");
  CHECK(scene.look("", false) == "-");
  CHECK(scene.look("", false) == "-");
  CHECK(scene.look("a:2\n") == "-");  // the first that counts
  CHECK(scene.look("a:2\nc\n", false) == "a:4 b:1 c:1");
  CHECK(scene.look("a:2\nb\nc\n", false) == "-");  // but b is there after all
  CHECK(scene.look("a:2\nc\n") == "a:2 b:1 c:1");
  CHECK(scene.look("a:2\nc\n") == "a:2 c:1");
  CHECK(scene.look("!c\n", false) == "a:2");
}

TEST_CASE("another key or a count that is written now is told, too") {
  Scene scene;
  scene.look("a\n");
  CHECK(scene.look("a identity=k\n") == "a:1");
  CHECK(scene.poller.hosts().hosts[0].identity == "k");
  CHECK(scene.look("a:1 identity=k\n") == "a:1");
  CHECK(scene.poller.hosts().hosts[0].slots_given);
}

}  // namespace
}  // namespace trainrun::hosts
