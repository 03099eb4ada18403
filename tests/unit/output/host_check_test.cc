#include "launcher/output/host_check.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace trainrun;
using output::HostCheck;

namespace {

HostCheck good(std::string name, Duration ahead = {}) {
  wire::HostFacts facts;
  facts.machine = "x86_64";
  facts.cpus = {{0, 0, 0, 0}, {1, 1, 0, 0}};
  facts.gpus = 4;
  return {std::move(name), facts, ahead, {}};
}

HostCheck unknown_key(const std::string& name) {
  return {name,
          std::nullopt,
          {},
          {Code::host_key, name + ": its host key is not known", "scan " + name + " >> known"}};
}

}  // namespace

TEST_SUITE("host_check") {
  TEST_CASE("people read a line a host, in order, and a shared hint once") {
    CHECK(output::host_checks_text({unknown_key("a"), good("b", seconds(-3)), unknown_key("c")}) ==
          "a: its host key is not known\n"
          "b: ok: agent, programs and directories are there; 2 cores, 4 GPUs, x86_64; its clock is 3.0 s "
          "behind\n"
          "c: its host key is not known\n"
          "    try: scan a c >> known\n");
  }

  TEST_CASE("programs read the same of each host") {
    const auto json =
        nlohmann::json::parse(output::host_checks_json({unknown_key("a"), good("b", milliseconds(-1500))}));
    const auto expected = nlohmann::json::parse(R"({
      "schema": 2, "ok": false, "exit_code": 69,
      "hosts": [
        {"name": "a", "ok": false, "code": "host_key", "exit_code": 69,
         "error": "a: its host key is not known", "try": "scan a >> known"},
        {"name": "b", "ok": true, "cores": 2, "gpus": 4, "machine": "x86_64", "clock_ahead_s": -1.5}]})");
    CHECK(json == expected);
  }

  TEST_CASE("one exit code: what the failing hosts agree on, else that of an unreachable one") {
    const auto bad = [](Code code) { return HostCheck{"h", std::nullopt, {}, {code, "h: no", ""}}; };
    CHECK(output::exit_code_of({}) == 0);
    CHECK(output::exit_code_of({good("a")}) == 0);
    CHECK(output::exit_code_of({good("a"), bad(Code::not_found), bad(Code::not_found)}) == 127);
    CHECK(output::exit_code_of({bad(Code::not_found), bad(Code::config)}) == 69);
  }
}
