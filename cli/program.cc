#include "cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

std::string under(const std::string& directory, std::string_view path) {
  if (path.starts_with('/')) return std::string(path);
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

// Where execvp would find a name without a slash; empty if nowhere.
std::string search(const std::string& name, const std::string& path, const std::string& directory,
                   const Inputs& inputs) {
  if (path.empty()) return {};
  for (const auto entry : split(path, ':')) {
    const auto candidate = under(entry.empty() ? directory : under(directory, entry), name);
    if (inputs.is_executable(candidate)) return candidate;
  }
  return {};
}

bool needs_python(const std::string& name, const std::string& directory, const Inputs& inputs) {
  if (!name.ends_with(".py") || name.size() == 3) return false;
  if (name.find('/') != std::string::npos) return !inputs.is_executable(under(directory, name));
  // execvp would not look into the directory; python does
  return search(name, variable(inputs.environment, "PATH"), directory, inputs).empty();
}

}  // namespace

std::string variable(const std::vector<EnvVar>& environment, std::string_view name) {
  for (const auto& [key, value] : environment) {
    if (key == name) return value;
  }
  return {};
}

std::string absolute_path(const std::string& path, const Inputs& inputs) {
  if (path.starts_with("~/")) {
    const auto home = variable(inputs.environment, "HOME");
    if (!home.empty()) return home + path.substr(1);
  }
  return under(inputs.directory, path);
}

Result<std::vector<std::string>> program_words(const ArgvPart& part, const std::string& directory,
                                               const Inputs& inputs, std::vector<std::string>& notes) {
  std::string python = search("python3", variable(inputs.environment, "PATH"), directory, inputs);
  python =
      python.empty() ? "python3 of each host" : fmt::format("python3 of PATH ({} here)", harmless(python));
  std::vector<std::string> words;
  const auto module = std::find_if(part.settings.begin(), part.settings.end(),
                                   [](const Setting& setting) { return setting.option == Option::module; });
  if (module != part.settings.end()) {
    words = {"python3", "-m", module->value};
    notes.push_back(fmt::format("running module {} with {}", harmless(module->value), python));
  } else if (part.program.empty()) {
    return words;
  } else if (part.program.front().empty()) {
    return fail(Code::usage, "the name of the program is empty",
                "write trainrun [flags] program [arguments]");
  } else if (needs_python(part.program.front(), directory, inputs)) {
    words = {"python3"};
    notes.push_back(fmt::format("{} is not executable: running it with {}",
                                trainrun::quoted(part.program.front()), python));
  }
  words.insert(words.end(), part.program.begin(), part.program.end());
  return words;
}

Result<void> check_program(const Program& program, const std::string& path, const Inputs& inputs) {
  const std::string& name = program.argv.front();
  if (name.find('/') == std::string::npos) {
    if (path.empty() || !search(name, path, program.directory, inputs).empty()) return {};
    const bool here = inputs.is_file(under(program.directory, name));
    return fail(Code::not_found, fmt::format("program {} not found in PATH", trainrun::quoted(name)),
                here ? fmt::format("it is in {}: write ./{}", harmless(program.directory), harmless(name))
                     : "write its path, or set PATH (-x PATH=...)");
  }
  const auto where = under(program.directory, name);
  if (inputs.is_executable(where)) return {};
  if (inputs.is_directory(where))
    return fail(Code::not_executable, fmt::format("program {} is a directory", trainrun::quoted(where)));
  if (inputs.is_file(where)) {
    return fail(Code::not_executable, fmt::format("program {} is not executable", trainrun::quoted(where)),
                fmt::format("chmod +x {}", harmless(shell_quote(name))));
  }
  return fail(Code::not_found,
              fmt::format("program {} not found: it does not exist", trainrun::quoted(where)),
              name.starts_with('/') ? "" : "a relative path is taken from the working directory, see --wdir");
}

}  // namespace trainrun::cli
