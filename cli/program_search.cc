#include "cli/program_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/program.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/base/wrapper.h"
#include "launcher/core/script.h"

namespace trainrun::cli {

namespace {

// One program's names, one after the other.
class Search {
 public:
  Search(const JobSpec& job, Program& program, const Inputs& inputs, std::vector<std::string>& notes)
      : verbose_(job.verbose > 0),
        path_(path_of_workers(job, program)),
        program_(program),
        inputs_(inputs),
        notes_(notes) {}

  void run() {
    auto& argv = program_.argv;
    if (argv.empty() || !look_up(argv.front())) return;
    std::size_t at = 0;
    while (const auto next = program_behind(at)) {
      at = next;
      if (argv[at].find('/') != std::string::npos) must_be_there(argv[at]);
      if (!look_up(argv[at])) return;
    }
    follow_script(at);
  }

 private:
  // The place of what env or a wrapper runs; 0: it is neither, or only it knows.
  std::size_t program_behind(std::size_t at) {
    const auto& argv = program_.argv;
    const std::vector<std::string> words(argv.begin() + static_cast<std::ptrdiff_t>(at), argv.end());
    if (const auto of_env = core::program_of_env(words); of_env > 0) {
      for (std::size_t i = 1; i < of_env; ++i)
        if (words[i].starts_with("PATH=")) path_ = words[i].substr(5);
      return at + of_env;
    }
    if (!is_wrapper(argv[at])) return 0;
    // What options take is no program: `timeout -s KILL 5 python3`, `taskset 3 python3`.
    for (std::size_t i = 1; i < words.size(); ++i)
      if (is_program(words[i])) return at + i;
    return 0;
  }

  [[nodiscard]] bool is_program(const std::string& word) const {
    if (word.empty() || word.starts_with('-')) return false;
    if (word.find('/') == std::string::npos)
      return !search_path(word, path_, program_.directory, inputs_).empty();
    const auto path = path_under(program_.directory, word);
    return inputs_.is_file(path) && inputs_.is_executable(path);
  }

  // Whether it is a path now.
  bool look_up(std::string& name) {
    if (name.find('/') != std::string::npos) return true;
    auto found = search_path(name, path_, program_.directory, inputs_);
    if (verbose_) {
      notes_.push_back(
          found.empty()
              ? fmt::format("{} is not in PATH here: each host looks in its own", trainrun::quoted(name))
              : fmt::format("{} is {} on every host", trainrun::quoted(name), trainrun::quoted(found)));
    }
    if (found.empty()) return false;
    program_.found.push_back({name, found, ""});
    name = std::move(found);
    return true;
  }

  // Of what stands behind a wrapper hosts would not look at a path by themselves. One that is not here may be
  // another thing: they are not asked for it.
  void must_be_there(const std::string& name) {
    const auto path = path_under(program_.directory, name);
    if (inputs_.is_file(path) && inputs_.is_executable(path)) need(path);
  }

  void need(const std::string& path) {
    auto& all = program_.found;
    if (std::none_of(all.begin(), all.end(), [&](const auto& one) { return one.path == path; }))
      all.push_back({"", path, ""});
  }

  void follow_script(std::size_t at) {
    auto& argv = program_.argv;
    const auto script = path_under(program_.directory, argv[at]);
    auto words = core::interpreter_of(inputs_.first_line(script));
    if (words.empty()) return;
    if (words.front().starts_with('/')) {
      program_.found.push_back({"", words.front(), script});
      return;
    }
    if (!look_up(words.front())) return;
    need(script);  // it must still be a program there
    words.push_back(script);
    argv.erase(argv.begin() + static_cast<std::ptrdiff_t>(at));
    argv.insert(argv.begin() + static_cast<std::ptrdiff_t>(at), words.begin(), words.end());
  }

  const bool verbose_;
  std::string path_;
  Program& program_;
  const Inputs& inputs_;
  std::vector<std::string>& notes_;
};

// An absolute path that lexically_normal() would not change.
bool is_normal(std::string_view path) {
  const auto has = [path](std::string_view part) { return path.find(part) != std::string_view::npos; };
  return path.starts_with('/') && !path.ends_with('/') && !path.ends_with("/.") && !path.ends_with("/..") &&
         !has("//") && !has("/./") && !has("/../");
}

}  // namespace

std::string path_under(const std::string& directory, std::string_view path) {
  if (path.starts_with('/')) return std::string(path);
  // Every start looks through PATH, nearly always with nothing to make normal.
  if (auto joined = directory + "/" + std::string(path); is_normal(joined)) return joined;
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

std::string search_path(const std::string& name, const std::string& path, const std::string& directory,
                        const Inputs& inputs) {
  if (path.empty()) return {};
  for (const auto entry : split(path, ':')) {
    const auto candidate = path_under(entry.empty() ? directory : path_under(directory, entry), name);
    if (inputs.is_executable(candidate)) return candidate;
  }
  return {};
}

std::string path_of_workers(const JobSpec& job, const Program& program) {
  auto own = variable(program.env, "PATH");
  return own.empty() ? variable(job.env, "PATH") : own;
}

void search_programs(JobSpec& job, const Inputs& inputs, std::vector<std::string>& notes) {
  for (auto& program : job.programs) Search(job, program, inputs, notes).run();
}

std::vector<std::string> notes_on_absent(const JobSpec& job, const Inputs& inputs) {
  std::vector<std::string> notes;
  const auto say = [&notes](const std::string& what) {
    auto line = fmt::format(
        "{} is not on this host; whether the others have it is seen at the start (or by "
        "--check-hosts)",
        trainrun::quoted(what));
    if (std::find(notes.begin(), notes.end(), line) == notes.end()) notes.push_back(std::move(line));
  };
  for (const auto& program : job.programs) {
    if (program.argv.empty()) continue;
    const auto& name = program.argv.front();
    const auto path = path_under(program.directory, name);
    if (name.find('/') == std::string::npos
            ? search_path(name, path_of_workers(job, program), program.directory, inputs).empty()
            : !inputs.is_file(path))
      say(name);
    if (!program.script.empty() && !inputs.is_file(path_under(program.directory, program.script)))
      say(program.script);
  }
  return notes;
}

}  // namespace trainrun::cli
