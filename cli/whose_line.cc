#include "cli/whose_line.h"

#include <fmt/format.h>

#include "cli/horovod_signs.h"
#include "cli/mpi_line.h"
#include "cli/mpi_signs.h"
#include "cli/options.h"
#include "cli/program.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

// --compat-cli and its value, or TRAINRUN_COMPAT_CLI; empty: neither. `used` are the words that it took.
Result<std::string> compat_cli(const Inputs& inputs, std::size_t& used) {
  const auto& words = inputs.argv;
  if (!words.empty()) {
    const auto equals = words.front().find('=');
    const auto* option = find_option(words.front().substr(0, equals));
    if (option != nullptr && option->option == Option::compat_cli) {
      used = equals == std::string::npos ? 2 : 1;
      if (used > words.size())
        return fail(Code::usage, "--compat-cli needs a value",
                    "write --compat-cli openmpi, hydra or horovodrun");
      return equals == std::string::npos ? words[1] : words.front().substr(equals + 1);
    }
  }
  return variable(inputs.environment, "TRAINRUN_COMPAT_CLI");
}

// A line that horovodrun would take, with a program of Horovod's.
bool runs_horovod(const std::vector<std::string>& words, const Inputs& inputs) {
  const auto at = program_behind_its_options(words);
  return at && inputs.uses_horovod &&
         inputs.uses_horovod({words.begin() + static_cast<std::ptrdiff_t>(*at), words.end()},
                             inputs.directory);
}

}  // namespace

Result<std::optional<ForeignLine>> foreign_line(const Inputs& inputs) {
  std::size_t used = 0;
  const auto whose = compat_cli(inputs, used);
  if (!whose) return tl::unexpected(whose.error());
  ForeignLine call;
  call.words.assign(inputs.argv.begin() + static_cast<std::ptrdiff_t>(used), inputs.argv.end());
  if (*whose == "none") return std::nullopt;
  const auto& name = inputs.called_as;
  const auto has = [&](std::string_view word) { return name.find(word) != std::string::npos; };
  const bool by_name = name.starts_with("mpirun") || name.starts_with("mpiexec") ||
                       name.starts_with("orterun") || name.starts_with("prterun");
  if (*whose == "horovodrun" || (whose->empty() && name.starts_with("horovodrun"))) {
    call.horovod = true;
  } else if (*whose == "openmpi") {
    call.ways = Ways::open_mpi;
  } else if (*whose == "hydra") {
    call.ways = Ways::hydra;
  } else if (whose->empty() && !by_name) {
    call.by_name = false;
    call.horovod = has_option_of_horovodrun(call.words) || runs_horovod(call.words, inputs);
    if (!call.horovod && !has_option_of_mpirun(call.words)) return std::nullopt;
  } else if (!whose->empty() && *whose != "auto") {
    return fail(
        Code::usage,
        fmt::format("--compat-cli: {} is not one of auto, openmpi, hydra, horovodrun, none", quoted(*whose)));
  } else if (has("openmpi") || has("terun")) {
    call.ways = Ways::open_mpi;
  } else if (has("hydra") || has("mpich") || has("intel")) {
    call.ways = Ways::hydra;
  }
  return call;
}

}  // namespace trainrun::cli
