// The lines between `trainrun ctl` and a launcher, the words after `trainrun ctl`, and what it shows.
#include "cli/ctl_text.h"
#include "cli/ctl_words.h"
#include "launcher/base/strings.h"
#include "launcher/control/protocol.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {

void check_request(std::string_view line) {
  const auto request = control::parse_request(line);
  if (!request) {
    check_error(request.error());
    const auto reply = control::read_reply(control::error_reply(request.error()));
    FUZZ_CHECK(!reply && reply.error() == request.error());
    return;
  }
  accepted();
  if (const auto* command = std::get_if<control::Command>(&*request)) {
    FUZZ_CHECK(command->rank >= 0);
    if (!command->host.name.empty()) check_hosts({command->host});
  }
  const auto again = control::parse_request(control::to_line(*request));
  FUZZ_CHECK(again && *again == *request);
}

void check_shown(std::string_view text) {
  for (const auto line : split(text, '\n')) FUZZ_CHECK(!has_control(line));
}

void check_reply(std::string_view line) {
  const auto reply = control::read_reply(line);
  if (!reply) FUZZ_CHECK(!reply.error().message.empty());
  if (const auto identity = control::read_identity(line)) {
    FUZZ_CHECK(control::read_identity(control::to_json(*identity)) == *identity);
    check_shown(cli::jobs_text({{"0123", *identity}}, [](std::int64_t) { return std::string("then"); }));
  }
  const auto world = control::read_world(line);
  if (!world) return;
  accepted();
  check_shown(cli::world_text(*world));
  const auto again = control::read_world(control::to_json(*world));
  FUZZ_CHECK(again && again->ranks.size() == world->ranks.size() && again->hosts == world->hosts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = text_of(data, size);
  check_request(text);
  check_reply(text);
  std::vector<std::string> words;
  for (const auto word : split(text, '\n')) words.emplace_back(word);
  if (const auto ctl = cli::parse_ctl(words)) {
    accepted();
    if (ctl->action == cli::CtlWords::Action::ask) check_request(control::to_line(ctl->command));
  } else {
    check_error(ctl.error());
  }
  return 0;
}
