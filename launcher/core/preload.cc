#include "launcher/core/preload.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "launcher/base/strings.h"
#include "launcher/core/env_var.h"
#include "launcher/core/script.h"

namespace trainrun::core {
namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_python(std::string_view name) {
  constexpr std::string_view python = "python";
  return name.starts_with(python) &&
         name.substr(python.size()).find_first_not_of("0123456789.") == std::string_view::npos;
}

// What starts Python for others, and would be a second launcher or hides the interpreter.
std::string instead_of(std::string_view name) {
  if (!launcher_of({std::string(name)}).empty())
    return "it is a launcher of its own; write python3 and the script, and trainrun gives each rank its "
           "place";
  for (const std::string_view wrapper :
       {"uv", "conda", "mamba", "micromamba", "poetry", "pipenv", "pdm", "hatch"})
    if (name == wrapper) return "write the path of its environment's python3 and the script instead";
  if (name.ends_with(".py")) return "write python3 before the script";
  return "it is no python3 with a script, -m or -c";
}

// Flags without a value that leave the start of the interpreter as it is. Of the others -E, -I and -S keep us
// out.
constexpr std::string_view plain_flags = "bBdOPqRsuvx";

std::string refused_flag(std::string_view flag) {
  return "with " + std::string(flag) + " Python cannot be made to import ahead";
}

}  // namespace

PythonCommand python_command(const std::vector<std::string>& argv) {
  const auto refuse = [](std::string why) { return PythonCommand{.refused = std::move(why)}; };
  if (argv.empty()) return refuse("there is no program");
  const auto at = program_of_env(argv);
  if (!is_python(base_name(argv[at]))) return refuse(instead_of(base_name(argv[at])));
  for (std::size_t i = at + 1; i < argv.size(); ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with('-')) return {.interpreter = at, .command = i};
    if (word == "-" || word.starts_with("--")) return refuse(refused_flag(word));
    for (std::size_t k = 1; k < word.size(); ++k) {
      const char flag = word[k];
      if (flag == 'm' || flag == 'c') {
        if (k > 1) return refuse("write -" + std::string(1, flag) + " as a word of its own");
        return {.interpreter = at, .command = i};
      }
      if (flag == 'W' || flag == 'X') {  // the rest of the word, or the next one, is its value
        if (k + 1 == word.size()) ++i;
        break;
      }
      if (plain_flags.find(flag) == std::string_view::npos)
        return refuse(refused_flag("-" + std::string(1, flag)));
    }
  }
  return refuse("it runs no script");
}

std::string not_preloaded(const JobSpec& job, const Program& program) {
  return job.preload.wanted() ? python_command(program.argv).refused : std::string();
}

std::vector<std::string> started_plainly(const JobSpec& job) {
  std::vector<std::string> lines;
  for (const auto& program : job.programs)
    if (const auto why = not_preloaded(job, program); !why.empty())
      lines.push_back("--preload: " + quoted(program.argv.empty() ? "" : program.argv.front()) +
                      " is started without it: " + why);
  return lines;
}

wire::Preload preload_of(const JobSpec& job) {
  wire::Preload preload;
  if (!job.preload.wanted()) return preload;
  preload.automatic = job.preload.automatic;
  preload.modules = job.preload.modules;
  preload.import_limit_ms = static_cast<std::uint32_t>(std::min<std::int64_t>(
      std::chrono::ceil<milliseconds>(job.start_timeout).count(), std::numeric_limits<std::uint32_t>::max()));
  for (const auto& program : job.programs) {
    const auto line = python_command(program.argv);
    if (!line.refused.empty()) continue;
    wire::Preload::Program one;
    one.argv = program.argv;
    one.interpreter = static_cast<std::uint32_t>(line.interpreter);
    one.command = static_cast<std::uint32_t>(line.command);
    one.directory = program.directory;
    // What worker_env gives every rank, and Python reads at its start.
    if (find_variable(job.env, "PYTHONUNBUFFERED") == nullptr) one.env.emplace_back("PYTHONUNBUFFERED", "1");
    for (const auto& [name, value] : program.env) {
      std::erase_if(one.env, [&name = name](const auto& pair) { return pair.first == name; });
      one.env.emplace_back(name, value);
    }
    // Of `env NAME=VALUE python3 ...`.
    for (std::size_t i = 1; i < line.interpreter; ++i) {
      const auto& word = program.argv[i];
      const auto equals = word.find('=');
      std::erase_if(one.env, [&](const auto& pair) { return pair.first == word.substr(0, equals); });
      one.env.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
    const bool known = std::any_of(preload.programs.begin(), preload.programs.end(), [&one](const auto& it) {
      return it.argv == one.argv && it.directory == one.directory && it.env == one.env;
    });
    if (!known) preload.programs.push_back(std::move(one));
  }
  return preload;
}

}  // namespace trainrun::core
