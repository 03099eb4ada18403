// The text of one setting: the first line names the option, the rest is the value.
#include "cli/elastic_value.h"

#include "cli/value.h"
#include "launcher/base/time.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {

// What check_setting() takes means something to the parser of its type.
bool has_a_meaning(const cli::OptionInfo& row, std::string_view text) {
  using cli::Type;
  switch (row.type) {
    case Type::flag:
      return cli::parse_bool(text).has_value();
    case Type::duration:
      return parse_duration(text).has_value();
    case Type::map_by:
      return cli::parse_map_by(text).has_value();
    case Type::ranks:
      return cli::parse_ranks(text).has_value();
    case Type::stdin_to:
      return cli::parse_stdin(text).has_value();
    case Type::export_name:
      return cli::parse_export(text).has_value();
    case Type::port_range:
      return cli::parse_port_range(text).has_value();
    case Type::host_range:
      return cli::parse_host_range(text).has_value();
    case Type::discovery:
      return cli::parse_discovery(text).has_value();
    case Type::restarts:
      return cli::parse_restart_limit(text).has_value();
    case Type::time_range:
      return cli::parse_time_range(text).has_value();
    case Type::signal:
      return cli::parse_signal(text).has_value();
    default:
      return true;
  }
}

void check_duration(std::string_view text) {
  const auto duration = parse_duration(text);
  if (!duration) return;
  FUZZ_CHECK(*duration >= Duration::zero() && *duration <= cli::whole_job);
  FUZZ_CHECK(!format_duration(*duration).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = text_of(data, size);
  const auto end = text.find('\n');
  const auto name = text.substr(0, end);
  const auto value = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  check_duration(value);
  if (const auto ranks = cli::parse_ranks(value)) {
    for (std::size_t i = 1; i < ranks->size(); ++i) FUZZ_CHECK((*ranks)[i - 1] < (*ranks)[i]);
  }
  const auto* row = cli::find_option(name);
  if (row == nullptr) {
    if (name.starts_with('-')) FUZZ_CHECK(!has_control(cli::hint_for_unknown_flag(name)));
    return 0;
  }
  for (const auto& origin : {std::string(row->name), std::string("TRAINRUN_X"), std::string("f:1:2")}) {
    const auto good = cli::check_setting({row->option, std::string(value), origin});
    if (!good) {
      check_error(good.error(), origin + ": ");
      continue;
    }
    accepted();
    FUZZ_CHECK(has_a_meaning(*row, value));
  }
  return 0;
}
