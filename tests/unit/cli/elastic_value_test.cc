#include "cli/elastic_value.h"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

#include "cli/value.h"

using namespace trainrun;
using namespace trainrun::cli;

TEST_CASE("hosts of torchrun are a number or two with the smaller first") {
  CHECK(parse_host_range("2")->min == 2);
  CHECK(parse_host_range("2")->max == 2);
  CHECK(parse_host_range("2:4")->min == 2);
  CHECK(parse_host_range("2:4")->max == 4);
  for (const auto* bad : {"", "0", "0:2", "4:2", "2:", ":2", "2:4:6", "-1", "2-4", "65537", "a", "2: 4"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_host_range(bad).has_value());
  }
}

TEST_CASE("a limit of restarts has a window, an hour if none is given") {
  CHECK(parse_restart_limit("3")->count == 3);
  CHECK(parse_restart_limit("3")->window == std::chrono::hours(1));
  CHECK(parse_restart_limit("3/10m")->window == std::chrono::minutes(10));
  CHECK(parse_restart_limit("0")->count == 0);
  CHECK(parse_restart_limit("5/90")->window == seconds(90));
  for (const auto* bad : {"", "/", "3/", "/1h", "3/0", "3/x", "x/1h", "3/1h/2", "-1", "1000001", "3 /1h"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_restart_limit(bad).has_value());
  }
}

TEST_CASE("a range of times has the shorter one first") {
  CHECK(parse_time_range("10 300")->min == seconds(10));
  CHECK(parse_time_range("10 300")->max == seconds(300));
  CHECK(parse_time_range("10s,5m")->max == std::chrono::minutes(5));
  CHECK(parse_time_range("10, 300")->max == seconds(300));
  CHECK(parse_time_range("0 0")->max == seconds(0));
  for (const auto* bad : {"", "10", "300 10", "10 300 600", "a b", "10,", " 10", "10-300"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_time_range(bad).has_value());
  }
}

TEST_CASE("signals are those that a program can handle, with or without SIG") {
  CHECK(parse_signal("TERM") == SIGTERM);
  CHECK(parse_signal("SIGUSR1") == SIGUSR1);
  CHECK(parse_signal("usr2") == SIGUSR2);
  for (const auto* bad : {"", "KILL", "STOP", "15", "SIG", "TERM ", "USR3"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_signal(bad).has_value());
  }
}

TEST_CASE("a discovery is a kind and its source") {
  CHECK(parse_discovery("script:./hosts --all")->kind == DiscoveryKind::script);
  CHECK(parse_discovery("script:./hosts --all")->source == "./hosts --all");
  CHECK(parse_discovery("file:a b")->kind == DiscoveryKind::file);
  CHECK(parse_discovery("file:a b")->source == "a b");
  CHECK(parse_discovery("dns:workers.example.org")->kind == DiscoveryKind::dns);
  CHECK(parse_discovery("dns:me@workers:8")->source == "me@workers:8");
  CHECK(parse_discovery("slurm")->kind == DiscoveryKind::slurm);
  for (const auto& bad :
       {std::string(), std::string("script:"), std::string("script: "), std::string("file:"),
        std::string("dns:"), std::string("dns:-x"), std::string("dns:a;b"), std::string("dns:n[1-2]"),
        std::string("slurm:1"), std::string("./hosts"), std::string("Script:x"),
        "file:" + std::string(5000, 'a'), "script:" + std::string(200'000, 'a')}) {
    CAPTURE(bad.substr(0, 40));
    CHECK_FALSE(parse_discovery(bad).has_value());
  }
}

TEST_CASE("the settings of an elastic job are refused with what was expected") {
  const auto said = [](Option option, std::string text) {
    const auto ok = check_setting({option, std::move(text), "--x"});
    return ok ? "good" : ok.error().message + (ok.error().hint.empty() ? "" : " | " + ok.error().hint);
  };
  using enum Option;
  CHECK(said(nnodes, "4:2") == "--x: '4:2' is not a number of hosts, N or MIN:MAX");
  CHECK(said(reset_limit, "3/") ==
        "--x: '3/' is not a number of restarts, as in 3, or 3/10m: 3 within 10 minutes");
  CHECK(said(blacklist_cooldown_range, "300 10") ==
        "--x: '300 10' is not two times, the shorter one first, as in 10 300");
  CHECK(said(leave_signal, "KILL") ==
        "--x: 'KILL' is not a signal that a program can handle: TERM, INT, HUP, QUIT, USR1, USR2");
  CHECK(said(discover, "./hosts") ==
        "--x: './hosts' is not script:CMD, file:PATH, dns:NAME or slurm | write script:'./hosts'");
  CHECK(said(discover, "http://x") == "--x: 'http://x' is not script:CMD, file:PATH, dns:NAME or slurm");
  CHECK(said(on_failure, "restart") ==
        "--x: 'restart' is not one of abort, restart-world, in-place, auto, ignore");
  CHECK(said(min_np, "0") == "--x: '0' is not a whole number from 1 to 1000000");
  CHECK(said(spares, "0") == "good");
  CHECK(said(settle, "0") == "good");
  CHECK(said(hang_timeout, "0") ==
        "--x: '0' is not a time above zero | write seconds, or 250ms, 90s, 5m, 2h, 1:30:00");
}
