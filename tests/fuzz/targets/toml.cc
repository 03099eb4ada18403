// --config FILE.toml, and the check of what it sets.
#include "cli/config_file.h"
#include "cli/settings.h"
#include "cli/value.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = text_of(data, size);
  const auto file = cli::read_config_file(text, "dir/job.toml");
  if (!file) return check_line_number(file.error(), "dir/job.toml:", lines_in(text)), 0;
  accepted();
  for (const auto& part : file->programs) {
    for (const auto& setting : part.settings) FUZZ_CHECK(setting.origin.starts_with("dir/job.toml:"));
  }
  FUZZ_CHECK(file->programs.empty() || file->programs_origin.starts_with("dir/job.toml"));
  for (const auto& setting : file->settings) {
    FUZZ_CHECK(setting.origin.starts_with("dir/job.toml:"));
    if (const auto good = cli::check_setting(setting); !good)
      check_line_number(good.error(), "dir/job.toml:", lines_in(text));
  }
  if (const auto merged = cli::Settings::merge({file->settings}); !merged) check_error(merged.error());
  return 0;
}
