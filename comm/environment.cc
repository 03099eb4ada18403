#include "comm/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "launcher/base/strings.h"

namespace trainrun::comm {
namespace {

// As long as any time in a variable can be. What is above means for ever, and would overflow in nanoseconds.
constexpr milliseconds longest = std::chrono::hours(24 * 365 * 10);

constexpr std::uint64_t least_fusion_bytes = 4096, most_fusion_bytes = std::uint64_t{16} << 30;

Duration of_option(std::int64_t ms) { return std::min(milliseconds(ms), longest); }

}  // namespace

Outcome<Environment> read_environment(const char* (*get)(const char*), const trc_options* options) {
  const auto text = [&](const char* name) {
    const char* value = get(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::optional<Failure> problem;
  const auto wrong = [&](const char* name, const std::string& value, const char* expected) {
    if (!problem)
      problem = fail(TRC_INVALID, fmt::format("{}={}: expected {}", name, quoted(value), expected)).value();
  };
  const auto number = [&](const char* name) -> std::optional<std::uint32_t> {
    const auto value = text(name);
    if (value.empty()) return std::nullopt;
    const auto parsed = parse_unsigned<std::uint32_t>(value);
    if (!parsed) wrong(name, value, "a number");
    return parsed;
  };
  const auto time = [&](const char* name, Duration& into) {
    const auto value = text(name);
    if (value.empty()) return;
    const auto parsed = parse_duration(value);
    if (parsed && *parsed > Duration::zero())
      into = *parsed;
    else
      wrong(name, value, "a time such as 90, 2m");
  };

  Environment environment;
  environment.rendezvous = text("TRAINRUN_RENDEZVOUS");
  environment.key_file = text("TRAINRUN_KEY_FILE");
  if (const auto rank = number("TRAINRUN_RANK")) environment.rank = Rank{*rank};
  environment.size = number("TRAINRUN_SIZE");
  if (const auto generation = number("TRAINRUN_GENERATION")) environment.generation = Generation{*generation};
  if (const auto worker = number("TRAINRUN_WORKER")) environment.worker = WorkerId{*worker};
  environment.address = text("TRAINRUN_ADDRESS");
  environment.host = text("TRAINRUN_HOST");
  if (const auto backend = text("TRAINRUN_COMM_BACKEND"); backend == "shm")
    environment.backend = BackendChoice::shm;
  else if (backend == "gloo")
    environment.backend = BackendChoice::gloo;
  else if (!backend.empty() && backend != "auto")
    wrong("TRAINRUN_COMM_BACKEND", backend, "auto, shm or gloo");
  time("TRAINRUN_OP_TIMEOUT", environment.op_timeout);
  time("TRAINRUN_INIT_TIMEOUT", environment.init_timeout);
  time("TRAINRUN_ELASTIC_TIMEOUT", environment.elastic_timeout);
  time("TRAINRUN_NCCL_ABORT_TIMEOUT", environment.nccl_abort_timeout);
  if (const auto value = text("TRAINRUN_FUSION_BYTES"); !value.empty()) {
    const auto bytes = parse_unsigned<std::uint64_t>(value);
    if (bytes && *bytes >= least_fusion_bytes && *bytes <= most_fusion_bytes)
      environment.fusion_bytes = *bytes;
    else
      wrong("TRAINRUN_FUSION_BYTES", value, "a number of bytes from 4096 to 17179869184");
  }
  if (options != nullptr) {
    if (options->struct_size < sizeof(trc_options))
      return fail(TRC_INVALID, "trc_options.struct_size is not sizeof(trc_options)");
    if (options->op_timeout_ms < 0 || options->init_timeout_ms < 0)
      return fail(TRC_INVALID, "a timeout is negative");
    if (options->op_timeout_ms > 0) environment.op_timeout = of_option(options->op_timeout_ms);
    if (options->init_timeout_ms > 0) environment.init_timeout = of_option(options->init_timeout_ms);
  }
  if (environment.host.empty()) {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) == 0) environment.host = name.data();
  }
  if (problem) return tl::unexpected(*problem);
  if (environment.rendezvous.empty() && environment.size.value_or(1) > 1)
    return fail(TRC_INVALID,
                fmt::format("TRAINRUN_SIZE={} but TRAINRUN_RENDEZVOUS is not set", *environment.size));
  if (!environment.rendezvous.empty() && environment.key_file.empty())
    return fail(TRC_INVALID, "TRAINRUN_RENDEZVOUS is set but TRAINRUN_KEY_FILE is not");
  return environment;
}

}  // namespace trainrun::comm
