#include "launcher/core/script.h"

#include <algorithm>
#include <array>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// What env would take for a program: no option, no NAME=VALUE, and nothing that its -S would expand.
bool is_plain_name(std::string_view word) {
  return !word.empty() && word.front() != '-' && word.find_first_of("='\"\\$#") == std::string_view::npos;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!(text = trim(text)).empty()) {
    const auto end = std::min(text.find_first_of(" \t"), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

}  // namespace

std::string script_of(const std::vector<std::string>& argv) {
  const auto at = program_of_env(argv);
  if (argv.size() < at + 2 || argv[at + 1].empty() || argv[at + 1].front() == '-') return {};
  const auto name = base_name(argv[at]);
  constexpr std::string_view python = "python";
  if (!name.starts_with(python)) return {};
  const auto version = name.substr(python.size());
  return version.find_first_not_of("0123456789.") == std::string_view::npos ? argv[at + 1] : std::string();
}

std::size_t program_of_env(const std::vector<std::string>& argv) {
  if (argv.empty() || base_name(argv.front()) != "env") return 0;
  for (std::size_t at = 1; at < argv.size(); ++at) {
    if (argv[at].starts_with('-')) return 0;
    if (argv[at].find('=') == std::string::npos) return at;
  }
  return 0;
}

std::string launcher_of(const std::vector<std::string>& argv) {
  constexpr std::array programs{"torchrun",   "accelerate", "deepspeed", "lightning", "colossalai",
                                "horovodrun", "mpirun",     "mpiexec",   "orterun",   "trainrun"};
  constexpr std::array modules{"torch.distributed.run", "torch.distributed.launch",
                               "accelerate.commands.launch", "deepspeed.launcher.runner"};
  const auto is_one_of = [](const auto& names, std::string_view word) {
    return std::find(names.begin(), names.end(), word) != names.end();
  };
  if (argv.empty()) return {};
  const auto at = program_of_env(argv);
  const auto name = base_name(argv[at]);
  if (is_one_of(programs, name)) return std::string(name);
  if (!name.starts_with("python")) return {};
  for (auto i = at + 1; i + 1 < argv.size() && argv[i].starts_with('-'); ++i)
    if (argv[i] == "-m") return is_one_of(modules, argv[i + 1]) ? argv[i + 1] : std::string{};
  return {};
}

std::vector<std::string> interpreter_of(std::string_view first_line) {
  if (!first_line.starts_with("#!")) return {};
  // The kernel takes the \r of a line that ends as in Windows for a part of the name.
  const auto whole = first_line.substr(2, first_line.find('\n', 2) - 2);
  const auto line = whole.ends_with('\r')
                        ? whole.substr(std::min(whole.find_first_not_of(" \t"), whole.size()))
                        : trim(whole);
  const auto end = std::min(line.find_first_of(" \t"), line.size());
  const std::string interpreter(line.substr(0, end));
  const auto argument = trim(line.substr(end));
  if (!interpreter.starts_with('/')) return {};
  if (base_name(interpreter) != "env") {
    return argument.empty() ? std::vector{interpreter} : std::vector{interpreter, std::string(argument)};
  }
  // Without -S the kernel gives all that follows as one word.
  auto words = argument.starts_with("-S") ? words_of(argument.substr(2)) : std::vector{std::string(argument)};
  const bool plain = !words.empty() && is_plain_name(words.front()) &&
                     words.front().find_first_of(" \t") == std::string::npos &&
                     argument.find_first_of("'\"\\$#") == std::string_view::npos;
  return plain ? words : std::vector{interpreter};
}

}  // namespace trainrun::core
