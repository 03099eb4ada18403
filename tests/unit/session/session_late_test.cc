// Agents behind slow links: what is late, and what is silent.
#include <doctest/doctest.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "launcher/session.h"
#include "tests/unit/session/session_scene.h"

using namespace trainrun;

using Scene = SessionScene;

TEST_SUITE("session.late") {
  TEST_CASE("reports are late as long as answers are, and something comes") {
    Scene scene;
    scene.until_events(1);
    CHECK(!scene.session->late_since());
    scene.silent = true;
    scene.session->ask();
    const auto asked = io::Loop::now();
    io::Timer often(scene.loop);
    std::function<void()> speak = [&] {
      scene.agent->send(wire::Note{"it goes on"});
      often.arm(io::Loop::now() + milliseconds(20), speak);
      scene.look();
    };
    speak();
    scene.run([&] { return scene.session->late_since().has_value(); });
    CHECK(*scene.session->late_since() <= asked);
    scene.silent = false;
    scene.session->ask();
    scene.run([&] { return !scene.session->late_since(); });
    // Of whom nothing comes it is not known that it is slow.
    often.disarm();
    scene.silent = true;
    scene.session->ask();
    io::Timer looks(scene.loop);
    std::function<void()> look = [&] { looks.arm(io::Loop::now() + milliseconds(20), look), scene.look(); };
    look();
    scene.run([&] { return scene.session->late_since().has_value(); });
    CHECK(!scene.session->silent_since());
    scene.run([&] { return !scene.session->late_since(); });
    CHECK(scene.session->silent_since().has_value());
  }

  TEST_CASE("one whose answers were late while something came is late until it is lost") {
    Scene scene(false, 7000);
    scene.until_events(1);
    scene.silent = true;
    scene.session->ask();
    const auto asked = io::Loop::now();
    io::Timer timer(scene.loop);
    timer.arm(asked + milliseconds(600), [&] { scene.agent->send(wire::Note{"it goes on"}); });
    bool was_late = false;
    io::Timer later(scene.loop);
    later.arm(asked + milliseconds(6500), [&] { was_late = scene.session->late_since().has_value(); });
    scene.until_events(3);  // the note is one
    CHECK(was_late);
    CHECK(scene.events.back() == "lost");
  }

  TEST_CASE("a part of a message is a sign of life") {
    Scene scene(false, 200);
    scene.on_event = [&] { scene.silent = true; };
    scene.until_events(1);
    std::string note;
    wire::append_frame(note, wire::Note{std::string(100, 'x')});
    std::size_t sent = 0;
    io::Timer timer(scene.loop);
    std::function<void()> send_one = [&] {
      REQUIRE(::write(scene.agent_fd, &note[sent++], 1) == 1);
      if (sent < 20) timer.arm(io::Loop::now() + milliseconds(50), send_one);
    };
    const auto began = io::Loop::now();
    send_one();
    scene.until_events(2);
    CHECK(sent == 20);
    CHECK(scene.events.back() == "lost");
    CHECK(io::Loop::now() - began >= milliseconds(19 * 50 + 200));
  }
}
