#include "rendezvous/standalone_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"
#include "rendezvous/protocol.h"

namespace trainrun::rendezvous {
namespace {

constexpr std::string_view usage =
    "trainrun rendezvous --np N [--bind ADDR:PORT] [--key-file FILE] [--timeout TIME]";

tl::unexpected<Error> wrong(std::string message, std::string hint = std::string(usage)) {
  return fail(Code::usage, "trainrun rendezvous: " + std::move(message), std::move(hint));
}

Result<void> set(StandaloneOptions& options, const std::string& name, const std::string& value) {
  if (name == "--np") {
    options.np = parse_unsigned<std::uint32_t>(value).value_or(0);
    if (options.np == 0 || options.np > max_world)
      return wrong(fmt::format("--np {}: expected 1 to {}", quoted(value), max_world));
  } else if (name == "--bind") {
    options.bind = value;
  } else if (name == "--key-file") {
    if (value.empty()) return wrong("--key-file is empty", "leave it out, and a key file is made");
    options.key_file = value;
  } else {
    options.timeout = parse_duration(value);
    if (!options.timeout || *options.timeout <= Duration::zero())
      return wrong(fmt::format("--timeout: {} is not a time above zero", quoted(value)),
                   "write seconds, or 250ms, 90s, 5m, 2h, 1:30:00");
  }
  return {};
}

}  // namespace

Result<StandaloneOptions> parse_standalone_options(const std::vector<std::string>& words) {
  StandaloneOptions options;
  options.help = std::any_of(words.begin(), words.end(),
                             [](const auto& word) { return word == "--help" || word == "-h"; });
  if (options.help) return options;
  const std::vector<std::string> known{"--np", "--bind", "--key-file", "--timeout"};
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto name = words[i];
    std::optional<std::string> value;
    if (const auto equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "-np" || name == "-n") name = "--np";
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const auto near = nearest(name, known);
      return wrong(fmt::format("unknown flag {}", quoted(name)),
                   near ? fmt::format("did you mean {}?", *near) : std::string(usage));
    }
    if (!value && i + 1 < words.size()) value = words[++i];
    if (!value) return wrong(fmt::format("{} needs a value", name));
    if (const auto taken = set(options, name, *value); !taken) return tl::unexpected(taken.error());
  }
  if (options.np == 0) return wrong("--np is missing: how many members are there?");
  return options;
}

std::string standalone_help() {
  return fmt::format("usage: {}\n\n", usage) +
         "Serves N members that somebody else starts, such as programs on comm under a batch system.\n"
         "Prints TRAINRUN_RENDEZVOUS, TRAINRUN_KEY_FILE and TRAINRUN_SIZE for them on one line, and\n"
         "ends when they have left: with 0, or with 69 when one was lost.\n\n"
         "  --np N, -np, -n   members\n"
         "  --bind ADDR:PORT  where to listen: a numeric address, port 0 for a free one\n"
         "                    (default: 127.0.0.1:0)\n"
         "  --key-file FILE   the job's key; made, and removed at the end, if there is no such file\n"
         "                    (default: one in a directory of our own)\n"
         "  --timeout TIME    end after this time, with 124 (default: none)\n\n"
         "Of a flag that is repeated the last one counts. More: man trainrun, \"A rendezvous alone\".\n";
}

}  // namespace trainrun::rendezvous
