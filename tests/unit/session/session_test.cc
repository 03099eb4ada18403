#include "launcher/session.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <optional>
#include <vector>

#include "launcher/host_problems.h"
#include "launcher/io/clock.h"
#include "tests/unit/session/session_scene.h"

using namespace trainrun;

namespace {

using Scene = SessionScene;
using Events = std::vector<std::string>;

}  // namespace

TEST_SUITE("session") {
  TEST_CASE("an agent is ready once it is prepared, its door open and its clock known") {
    Scene scene;
    scene.prepared.job_directory = "/tmp/job";
    scene.greeted.facts.hostname = "node7";
    scene.prepared.programs.pmix_library = "/lib/libpmix.so";
    CHECK(scene.session->state() == Session::State::greeting);
    scene.until_events(1);
    CHECK(scene.events == Events{"ready"});
    CHECK(scene.session->state() == Session::State::ready);
    CHECK(scene.session->door_port() == 4711);
    CHECK(scene.session->job_directory() == "/tmp/job");
    CHECK(scene.session->facts().hostname == "node7");
    CHECK(scene.session->facts().programs.pmix_library == "/lib/libpmix.so");
    CHECK(scene.seen == std::vector<std::uint8_t>{wire::Greet::type, wire::OpenJob::type,
                                                  wire::OpenDoor::type, wire::Ping::type});
  }

  TEST_CASE("a host that has no room for one more process is told as such") {
    Scene scene;
    scene.greets = false;
    scene.agent->send(wire::NoAgent{EAGAIN});
    scene.until_events(1);
    CHECK(scene.events == Events{"failed"});
    CHECK(scene.error.code == Code::try_again);
    CHECK(scene.error.message ==
          "gpu1: no agent can be started there: fork: Resource temporarily unavailable");
    CHECK(scene.error.hint.find("ulimit -u") != std::string::npos);
  }

  TEST_CASE("an agent that has not greeted, or greets twice, is given up") {
    Scene shy;
    shy.greets = false;
    shy.until_events(1);
    CHECK(shy.events == Events{"failed"});
    CHECK(shy.error.message.find("out of order") != std::string::npos);
    Scene eager;
    eager.until_events(1);
    eager.agent->send(eager.greeted);
    eager.until_events(2);
    CHECK(eager.events == Events{"ready", "lost"});
    CHECK(eager.reason.find("greeted twice") != std::string::npos);
  }

  TEST_CASE("what an agent finds wrong becomes one error with advice") {
    using Kind = wire::Problem::Kind;
    struct Row {
      std::vector<wire::Problem> problems;
      Code code;
      std::string_view message;
    };
    const Row rows[] = {
        {{{Kind::program, "train", ENOENT}},
         Code::not_found,
         "gpu1: program 'train' not found: No such file or directory"},
        {{{Kind::program, "train", EACCES}},
         Code::not_executable,
         "gpu1: program 'train' cannot be executed: Permission denied"},
        {{{Kind::directory, "/w", ENOENT}},
         Code::config,
         "gpu1: no usable directory '/w': No such file or directory"},
        {{{Kind::job_directory, "/tmp/x", ENOSPC}},
         Code::bootstrap,
         "gpu1: cannot make the job's private directory '/tmp/x': No space left on device"},
        {{{Kind::directory, "/w", ENOENT}, {Kind::program, "a\nb", ENOENT}},
         Code::config,
         "gpu1: no usable directory '/w': No such file or directory; gpu1: program 'a\\x0ab' not found: No "
         "such file "
         "or directory"},
    };
    for (const auto& row : rows) {
      Scene scene;
      scene.prepared.problems = row.problems;
      scene.run([&] { return scene.agent_closed; });
      CHECK(scene.events == Events{"failed"});
      CHECK(scene.error.code == row.code);
      CHECK(scene.error.message == row.message);
      CHECK_FALSE(scene.error.hint.empty());
      CHECK(scene.session->state() == Session::State::closed);
    }
  }

  TEST_CASE("a program whose path was chosen here is told with the way to let each host choose") {
    using Kind = wire::Problem::Kind;
    struct Row {
      wire::Problem problem;
      std::string message, hint;
    };
    const std::vector<FoundProgram> found = {
        {"python3", "/venv/bin/python3"}, {"", "/venv/bin/perl", "/w/run"}, {"", "/w/run"}};
    const Row rows[] = {
        {{Kind::program, "/venv/bin/python3", ENOENT},
         "gpu1: program '/venv/bin/python3' not found: No such file or directory",
         "install it there under the same path, or let each host look for 'python3' in its own PATH: "
         "--resolve each"},
        {{Kind::program, "/venv/bin/perl", ENOENT},
         "gpu1: program '/venv/bin/perl' not found: No such file or directory",
         "install it there under the same path; the first line of '/w/run' asks for it"},
        {{Kind::program, "/w/run", ENOENT},
         "gpu1: program '/w/run' not found: No such file or directory",
         "check the spelling, or copy it there"},
        {{Kind::program, "/bin/sh\r", ENOENT},
         "gpu1: program '/bin/sh\\x0d' not found: No such file or directory",
         "its script's lines end as in Windows: convert it, as by sed -i 's/\\r$//' FILE"},
        {{Kind::program, "/opt/train", ENOENT},
         "gpu1: program '/opt/train' not found: No such file or directory",
         "check the spelling, or copy it there"},
    };
    for (const auto& row : rows) {
      const auto error = explain_problems("gpu1", {row.problem}, found);
      CHECK(error.code == Code::not_found);
      CHECK(error.message == row.message);
      CHECK(error.hint == row.hint);
    }
  }

  TEST_CASE("the advice for a job's directory fits what is wrong with it") {
    struct Row {
      std::string path;
      int error;
      std::string_view hint;
    };
    for (const Row& row : {Row{"/scratch/me/trainrun.x", ENOSPC, "free space in '/scratch/me' there"},
                           Row{"/scratch/me/trainrun.x", EDQUOT, "free space in '/scratch/me' there"},
                           Row{"/nonexist/trainrun.x", ENOENT, "TMPDIR is '/nonexist' there: make that"},
                           Row{"/ro/trainrun.x", EROFS, "TMPDIR is '/ro' there: make that"},
                           Row{"/tmp/trainrun.x", EACCES, "see why '/tmp' cannot be written there"}}) {
      CAPTURE(row.path);
      Scene scene;
      scene.prepared.problems = {{wire::Problem::Kind::job_directory, row.path, row.error}};
      scene.run([&] { return scene.agent_closed; });
      CHECK(scene.error.hint.starts_with(row.hint));
    }
  }

  TEST_CASE("an agent of another version, or one that goes before it is ready, is a failed start") {
    Scene other;
    other.version = 99;
    other.until_events(1);
    CHECK(other.events == Events{"failed"});
    CHECK(other.error.code == Code::bootstrap);
    CHECK(other.error.message ==
          "gpu1: the agent ended before it was ready: its agent speaks another protocol");
    Scene gone;
    gone.agent.reset();
    gone.until_events(1);
    CHECK(gone.events == Events{"failed"});
  }

  TEST_CASE("an agent that goes later is lost, once") {
    Scene scene;
    scene.until_events(1);
    scene.agent.reset();
    scene.until_events(2);
    CHECK(scene.events == Events{"ready", "lost"});
    CHECK(scene.reason == "its agent or the connection to it ended");
    Scene here(true);
    here.until_events(1);
    here.agent.reset();
    here.until_events(2);
    CHECK(here.reason == "process 1 (trainrun-agent) ended");
    scene.session->send(wire::Ping{});
    scene.session->stop();
    CHECK(scene.session->state() == Session::State::closed);
  }

  TEST_CASE("an agent that falls silent is lost") {
    Scene scene(false, 100);
    scene.on_event = [&] { scene.silent = true; };
    scene.until_events(2);
    CHECK(scene.events == Events{"ready", "lost"});
    CHECK(scene.reason.starts_with("no answer for "));
  }

  TEST_CASE(
      "an agent that is silent when a pause is told is lost all the same, and is not waited for longer") {
    Scene scene(false, 100);
    scene.on_event = [&] { scene.silent = true; };
    scene.until_events(1);
    bool heard = false;
    scene.session->pause(true, [&] { heard = true; });
    scene.until_events(2);
    CHECK(scene.events == Events{"ready", "lost"});
    CHECK(scene.reason.starts_with("no answer for "));
    CHECK(heard);
    CHECK_FALSE(scene.loss.gave_us_up);
    CHECK(io::Loop::now() - scene.loss.heard >= milliseconds(100));
  }

  TEST_CASE("a stop of ours is no silence of the agent's, and the clock is measured anew after it") {
    Scene scene(false, 400);
    scene.loop.leave_out_stops();
    scene.until_events(1);
    const auto pings = [&] { return std::count(scene.seen.begin(), scene.seen.end(), wire::Ping::type); };
    const auto from = io::real_now();
    while (io::real_now() < from + milliseconds(600)) {  // as a stopped process lets time pass
    }
    io::stood_still(from);
    const auto before = pings();
    scene.ahead_ns = 3'600'000'000'000;  // the machine slept, and its clock did not
    scene.run([&] { return pings() >= before + 3 || scene.events.size() > 1; });
    CHECK(scene.events == Events{"ready"});
    const auto mapped = scene.session->map_time(io::real_now().time_since_epoch().count() + scene.ahead_ns);
    CHECK(mapped.at <= io::Loop::now() + seconds(1));
    CHECK(mapped.at >= io::Loop::now() - seconds(1));
    scene.loop.stop();
    io::forget_stops();
  }

  TEST_CASE("an agent that gives a stopped launcher up is not to blame") {
    Scene scene(false, 400);
    scene.loop.leave_out_stops();
    scene.until_events(1);
    const auto from = io::real_now();
    while (io::real_now() < from + milliseconds(300)) {
    }
    io::stood_still(from);
    scene.agent.reset();
    scene.until_events(2);
    CHECK(scene.loss.gave_us_up);
    CHECK(scene.reason.starts_with("trainrun stood still for 0."));
    CHECK(scene.reason.ends_with(" s, and the agent there gave it up after --host-timeout, 0.40 s"));
    scene.loop.stop();
    io::forget_stops();
  }

  TEST_CASE("malformed messages end the session without harm") {
    for (const std::uint8_t type : {wire::Hello::type, wire::NoAgent::type, wire::Greeted::type,
                                    wire::Prepared::type, wire::DoorOpened::type, wire::Stopped::type}) {
      CAPTURE(static_cast<int>(type));
      Scene scene;
      scene.until_events(1);
      auto frame = std::string("\0\0\0\x04", 4) + static_cast<char>(type) + "\xff\xff\xff";
      scene.agent.reset();
      auto pair = make_socket_pair();
      REQUIRE(pair);
      Session session(scene.loop, "gpu1", false,
                      {nullptr, [&](Error) { scene.said("failed"); }, nullptr, nullptr, nullptr});
      Session::Opening opening;
      opening.greeting.host_timeout_ms = 60'000;
      opening.doors = {{}};
      session.connected(std::move(pair->first), opening);
      REQUIRE(write_all(pair->second.get(), frame));
      scene.run([&] { return !scene.events.empty() && session.state() == Session::State::closed; });
      CHECK(session.state() == Session::State::closed);
    }
  }

  TEST_CASE("nothing is said after close, even by frames that came in the same breath") {
    Scene scene;
    scene.until_events(1);
    scene.on_event = [&] { scene.session->close(); };
    for (int i = 0; i < 3; ++i) scene.agent->send(wire::Note{"x"});
    scene.run([&] { return scene.agent_closed; });
    CHECK(scene.events == Events{"ready", "message"});
  }

  TEST_CASE("stop is answered by stopped, and an agent that goes without it is lost") {
    for (const bool stops : {true, false}) {
      Scene scene;
      scene.stops = stops;
      scene.until_events(1);
      scene.session->stop();
      CHECK(scene.session->state() == Session::State::closing);
      if (!stops) {
        scene.run([&] { return scene.seen.back() == wire::Stop::type; });
        scene.agent.reset();
      }
      scene.until_events(2);
      CHECK(scene.events == Events{"ready", stops ? "stopped" : "lost"});
      CHECK(scene.session->state() == Session::State::closed);
    }
  }

  TEST_CASE("an agent's time is mapped to ours within the error that is told") {
    Scene scene;
    scene.ahead_ns = 3'600'000'000'000;
    scene.until_events(1);
    const auto now = io::Loop::now();
    const auto mapped = scene.session->map_time(now.time_since_epoch().count() + scene.ahead_ns);
    CHECK(mapped.error >= Duration::zero());
    CHECK(mapped.at - now <= mapped.error);
    CHECK(now - mapped.at <= mapped.error);
    Scene same(true);
    same.until_events(1);
    CHECK(same.session->map_time(42).at == Instant(Duration(42)));
    CHECK(same.session->map_time(42).error == Duration::zero());
  }

  TEST_CASE("an agent that lies about its clock does no harm") {
    Scene scene;
    scene.pong_ns = INT64_MIN;
    scene.until_events(1);
    CHECK(scene.session->map_time(INT64_MAX).error > Duration::zero());
  }

  TEST_CASE("credit is paid in large pieces and completely") {
    Scene scene;
    scene.until_events(1);
    scene.session->owe_credit(200);
    scene.session->pay_credit();
    scene.session->owe_credit(100);
    scene.session->pay_credit();
    scene.run([&] { return scene.credit > 0; });
    CHECK(scene.credit == 300);
  }

  TEST_CASE("a pause is confirmed by the agent, or by its end") {
    Scene scene;
    scene.until_events(1);
    int heard = 0;
    scene.session->pause(true, [&] { ++heard, scene.look(); });
    CHECK(heard == 0);
    scene.run([&] { return heard == 1; });
    scene.silent = true;
    scene.session->pause(false, [&] { ++heard, scene.look(); });
    scene.agent.reset();
    scene.run([&] { return heard == 2; });
    scene.session->pause(true, [&] { ++heard; });  // nobody is there to be told
    CHECK(heard == 3);
  }
}
