#include "comm/environment.h"

#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <string>

using namespace trainrun;
using namespace trainrun::comm;

namespace {

std::map<std::string, std::string> variables;
const char* get(const char* name) {
  const auto at = variables.find(name);
  return at == variables.end() ? nullptr : at->second.c_str();
}
Outcome<Environment> read(std::map<std::string, std::string> set, const trc_options* options = nullptr) {
  variables = std::move(set);
  return read_environment(get, options);
}

}  // namespace

TEST_CASE("without any variable the world is this process alone") {
  const auto environment = read({});
  REQUIRE(environment);
  CHECK(environment->rendezvous.empty());
  CHECK_FALSE(environment->rank);
  CHECK(environment->generation == Generation{1});
}

TEST_CASE("the variables of a job are read") {
  const auto environment = read({{"TRAINRUN_RENDEZVOUS", "h:1"},
                                 {"TRAINRUN_KEY_FILE", "/k"},
                                 {"TRAINRUN_RANK", "3"},
                                 {"TRAINRUN_SIZE", "4"},
                                 {"TRAINRUN_GENERATION", "7"},
                                 {"TRAINRUN_ADDRESS", "10.0.0.1"},
                                 {"TRAINRUN_HOST", "gpu1"},
                                 {"TRAINRUN_WORKER", "12"},
                                 {"TRAINRUN_ELASTIC_TIMEOUT", "2m"},
                                 {"TRAINRUN_FUSION_BYTES", "4096"},
                                 {"TRAINRUN_OP_TIMEOUT", "1m"}});
  REQUIRE(environment);
  CHECK(environment->fusion_bytes == 4096);
  CHECK(environment->rendezvous == "h:1");
  CHECK(environment->key_file == "/k");
  CHECK(environment->rank == Rank{3});
  CHECK(environment->size == 4);
  CHECK(environment->generation == Generation{7});
  CHECK(environment->address == "10.0.0.1");
  CHECK(environment->host == "gpu1");
  CHECK(environment->op_timeout == seconds(60));
  CHECK(environment->worker == WorkerId{12});
  CHECK(environment->elastic_timeout == seconds(120));
}

TEST_CASE("the backend is chosen by name") {
  const auto chosen = [](const char* name) {
    return read({{"TRAINRUN_COMM_BACKEND", name}}).value().backend;
  };
  CHECK(read({}).value().backend == BackendChoice::automatic);
  CHECK(chosen("auto") == BackendChoice::automatic);
  CHECK(chosen("shm") == BackendChoice::shm);
  CHECK(chosen("gloo") == BackendChoice::gloo);
}

TEST_CASE("options go before the environment") {
  trc_options options{};
  options.struct_size = sizeof options;
  options.op_timeout_ms = 1500;
  const auto environment = read({{"TRAINRUN_OP_TIMEOUT", "1m"}, {"TRAINRUN_INIT_TIMEOUT", "5s"}}, &options);
  REQUIRE(environment);
  CHECK(environment->op_timeout == milliseconds(1500));
  CHECK(environment->init_timeout == seconds(5));
}

TEST_CASE("what makes no sense is refused by name") {
  const std::map<std::string, std::string> job{{"TRAINRUN_RENDEZVOUS", "h:1"}, {"TRAINRUN_KEY_FILE", "/k"}};
  const auto refused = [&](const std::string& name, const std::string& value) {
    auto set = job;
    set[name] = value;
    const auto environment = read(set);
    REQUIRE_FALSE(environment);
    CHECK(environment.error().status == TRC_INVALID);
    CHECK(environment.error().message.find(name) != std::string::npos);
  };
  refused("TRAINRUN_RANK", "-1");
  refused("TRAINRUN_RANK", "x");
  refused("TRAINRUN_SIZE", "4.5");
  refused("TRAINRUN_GENERATION", "99999999999");
  refused("TRAINRUN_WORKER", "-3");
  refused("TRAINRUN_COMM_BACKEND", "nccl");
  refused("TRAINRUN_OP_TIMEOUT", "0");
  refused("TRAINRUN_OP_TIMEOUT", "soon");
  refused("TRAINRUN_FUSION_BYTES", "4095");
  refused("TRAINRUN_FUSION_BYTES", "64M");
  refused("TRAINRUN_KEY_FILE", "");
  CHECK_FALSE(read({{"TRAINRUN_SIZE", "2"}}));
  CHECK(read({{"TRAINRUN_SIZE", "1"}}));
  trc_options old{};
  old.struct_size = 4;
  CHECK_FALSE(read({}, &old));
}

TEST_CASE("a time that is meant as for ever does not overflow") {
  trc_options options{};
  options.struct_size = sizeof options;
  options.op_timeout_ms = options.init_timeout_ms = std::numeric_limits<std::int64_t>::max();
  const auto environment = read({}, &options);
  REQUIRE(environment);
  const auto now = std::chrono::steady_clock::now();
  CHECK(now + environment->op_timeout > now + std::chrono::hours(24 * 365));
  CHECK(now + environment->init_timeout > now + std::chrono::hours(24 * 365));
}
