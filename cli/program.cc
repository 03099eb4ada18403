#include "cli/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/program_search.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/core/script.h"
#include "launcher/core/shown_words.h"

namespace trainrun::cli {

namespace {

// Why `x.py` is to be run with python3; empty if it can be executed as it is, or if this host, which alone
// would run it, has no such file.
std::string why_python(const std::string& name, const std::string& directory, bool this_host_alone,
                       const Inputs& inputs) {
  if (!name.ends_with(".py") || name.size() == 3) return {};
  const auto path = path_under(directory, name);
  const bool by_path = name.find('/') != std::string::npos;
  if (!by_path && !search_path(name, variable(inputs.environment, "PATH"), directory, inputs).empty())
    return {};
  if (!inputs.is_file(path)) return this_host_alone ? "" : "is not on this host";
  if (!inputs.is_executable(path)) return "is not executable";
  // Else a shell would take it for one of its own scripts.
  const auto line = inputs.first_line ? inputs.first_line(path) : std::string("#!");
  if (!line.starts_with("#!") && !line.starts_with("\x7f")) return "has no #! line";
  return by_path ? "" : "is not in PATH";  // execvp would not look into the directory; python does
}

// torchrun's own variable for it, where the line is torchrun's; empty: it says nothing.
std::string interpreter_of_torchrun(const ArgvPart& part, const Inputs& inputs) {
  if (!inputs.called_as.starts_with("torchrun")) return {};
  const auto without = variable(inputs.environment, "PET_NO_PYTHON");
  if (!without.empty() && without != "0") return {};
  for (const auto& one : part.left_out)
    if (bare_name(one.spelled) == "no-python") return {};
  return variable(inputs.environment, "PYTHON_EXEC");
}

// Of a link that leads nowhere the path that is missing; empty for all else.
std::string lost_target(const std::string& path, const Inputs& inputs) {
  constexpr int longest_chain = 40;
  if (!inputs.link_target) return {};
  std::string at = path;
  for (int i = 0; i < longest_chain; ++i) {
    auto next = inputs.link_target(at);
    if (next.empty()) return at == path || inputs.is_file(at) || inputs.is_directory(at) ? std::string() : at;
    at = std::move(next);
  }
  return {};
}

Result<void> dangling(const std::string& what, const std::string& link, const std::string& target) {
  const bool python = link.substr(link.rfind('/') + 1).starts_with("python");
  return fail(Code::not_found,
              fmt::format("{} {} is a link to {}, which does not exist", what, trainrun::quoted(link),
                          trainrun::quoted(target)),
              python ? "make the virtual environment anew with a Python that is there" : "mend the link");
}

// The interpreter of a script: the kernel says of a missing one that the script does not exist.
Result<void> check_interpreter(const std::string& script, const Inputs& inputs) {
  if (!inputs.first_line) return {};
  const auto line = inputs.first_line(script);
  const auto words = core::interpreter_of(line);
  // env does not find the name that ends so; the kernel does not find what is asked about below.
  if (!words.empty() && line.ends_with('\r') && !words.front().starts_with('/'))
    return fail(Code::not_found,
                fmt::format("program {} cannot run: its lines end as in Windows", trainrun::quoted(script)),
                fmt::format("convert it: sed -i 's/\\r$//' {}", printable(script)));
  if (words.empty() || !words.front().starts_with('/') || inputs.is_file(words.front())) return {};
  const auto what = fmt::format("program {} cannot run: its interpreter", trainrun::quoted(script));
  if (const auto target = lost_target(words.front(), inputs); !target.empty())
    return dangling(what, words.front(), target);
  if (words.back().ends_with('\r'))
    return fail(Code::not_found,
                fmt::format("{} {} does not exist: its lines end as in Windows", what,
                            trainrun::quoted(words.front())),
                fmt::format("convert it: sed -i 's/\\r$//' {}", printable(script)));
  return fail(Code::not_found, fmt::format("{} {} does not exist", what, trainrun::quoted(words.front())),
              "fix its first line, or write the interpreter before the script");
}

// The first of that name in PATH which leads nowhere.
std::string dangling_in_path(const std::string& name, const std::string& path, const Inputs& inputs) {
  for (const auto entry : split(path, ':')) {
    if (!entry.starts_with('/')) continue;
    auto candidate = fmt::format("{}/{}", entry, name);
    if (!lost_target(candidate, inputs).empty()) return candidate;
  }
  return {};
}

// srun's -m says how ranks are dealt; a module of such a name beside the program is meant as one.
bool is_distribution_of_srun(const std::string& name, const std::string& directory, const Inputs& inputs) {
  if (name != "block" && name != "cyclic" && name != "plane") return false;
  return !inputs.is_file(path_under(directory, name + ".py")) &&
         !inputs.is_directory(path_under(directory, name));
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
  return path_under(inputs.directory, path);
}

Result<std::vector<std::string>> program_words(const ArgvPart& part, const std::string& directory,
                                               bool this_host_alone, const Inputs& inputs,
                                               std::vector<std::string>& notes) {
  std::vector<std::string> words;
  const auto of_torchrun = interpreter_of_torchrun(part, inputs);
  const auto python = of_torchrun.empty() ? "python3" : of_torchrun;
  const auto module = std::find_if(part.settings.begin(), part.settings.end(),
                                   [](const Setting& setting) { return setting.option == Option::module; });
  if (module != part.settings.end()) {
    if (is_distribution_of_srun(module->value, directory, inputs))
      return fail(Code::usage,
                  fmt::format("{} {}: no module of that name is here", module->origin, module->value),
                  "-m is python's; for srun's -m write --map-by slot (block) or --map-by host (cyclic)");
    words = {python, "-m", module->value};
    notes.push_back(fmt::format("running module {} with {}", printable(module->value), printable(python)));
  } else if (part.program.empty()) {
    return words;
  } else if (part.program.front().empty()) {
    return fail(Code::usage, "the name of the program is empty",
                "write trainrun [flags] program [arguments]");
  } else if (!of_torchrun.empty() && part.program.front().ends_with(".py")) {
    words = {python};
    notes.push_back(fmt::format("{}: running it with {}, as PYTHON_EXEC says",
                                trainrun::quoted(part.program.front()), printable(python)));
  } else if (const auto why = why_python(part.program.front(), directory, this_host_alone, inputs);
             !why.empty()) {
    words = {"python3"};
    notes.push_back(
        fmt::format("{} {}: running it with python3", trainrun::quoted(part.program.front()), why));
  }
  words.insert(words.end(), part.program.begin(), part.program.end());
  return words;
}

namespace {

// What was meant by a word that no program has for its name.
std::string hint_for_word(const std::string& name) {
  if (name.find(' ') != std::string::npos)
    return "write the program and its arguments without quotes around all of them";
  const auto equals = name.find('=');
  if (equals == 0 || equals == std::string::npos) return {};
  return fmt::format("a variable for the ranks is -x {}=...", printable(name.substr(0, equals)));
}

}  // namespace

Result<void> check_program(const Program& program, const std::string& path, const Inputs& inputs) {
  const std::string& name = program.argv.front();
  if (name.find('/') == std::string::npos) {
    if (path.empty()) return {};
    if (const auto found = search_path(name, path, program.directory, inputs); !found.empty())
      return check_interpreter(found, inputs);
    if (const auto link = dangling_in_path(name, path, inputs); !link.empty())
      return dangling("program", link, lost_target(link, inputs));
    const bool here = inputs.is_file(path_under(program.directory, name));
    if (const auto hint = hint_for_word(name); !here && !hint.empty()) {
      const auto shown = core::shown_words({name}).front();
      return fail(Code::not_found, fmt::format("program {} not found", trainrun::quoted(shown)), hint);
    }
    if (!here && name.ends_with(".py")) {
      return fail(Code::not_found,
                  fmt::format("program {} not found: it is neither in {} nor in PATH", trainrun::quoted(name),
                              trainrun::quoted(program.directory)),
                  "check the spelling; a relative path is taken from the working directory, see --wdir");
    }
    if (name == "python" && !search_path("python3", path, program.directory, inputs).empty())
      return fail(Code::not_found, "program 'python' not found in PATH", "write python3, which is there");
    return fail(Code::not_found, fmt::format("program {} not found in PATH", trainrun::quoted(name)),
                here ? fmt::format("it is in {}: write ./{}", printable(program.directory), printable(name))
                     : "write its path, or set PATH (-x PATH=...)");
  }
  const auto where = path_under(program.directory, name);
  if (inputs.is_executable(where)) return check_interpreter(where, inputs);
  if (const auto target = lost_target(where, inputs); !target.empty())
    return dangling("program", where, target);
  if (inputs.is_directory(where))
    return fail(Code::not_executable, fmt::format("program {} is a directory", trainrun::quoted(where)));
  if (inputs.is_file(where)) {
    return fail(Code::not_executable, fmt::format("program {} is not executable", trainrun::quoted(where)),
                fmt::format("chmod +x {}", printable(shell_quote(name))));
  }
  if (const auto why = inputs.why_no_program ? inputs.why_no_program(where) : std::string(); !why.empty())
    return fail(Code::not_executable, fmt::format("program {} {}", trainrun::quoted(where), why));
  const bool by_variable =
      inputs.called_as.starts_with("torchrun") && name == variable(inputs.environment, "PYTHON_EXEC");
  return fail(Code::not_found,
              fmt::format("program {} not found: it does not exist", trainrun::quoted(where)),
              by_variable             ? "PYTHON_EXEC names it"
              : name.starts_with('/') ? ""
                                      : "a relative path is taken from the working directory, see --wdir");
}

}  // namespace trainrun::cli
