#include "launcher/agent/horovod_program.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "launcher/agent/elf.h"
#include "launcher/agent/program_files.h"
#include "launcher/agent/python_imports.h"
#include "launcher/agent/shell_text.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "launcher/io/spawn.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t most_words = 64, most_sources = 64, most_source = 1u << 20, most_extension = 256u << 20;

struct Source {
  std::string text, folder;  // of the file: what relative imports begin with
};

bool is_horovod(std::string_view module) { return module == "horovod" || module.starts_with("horovod."); }

// Files that might be the module, in a folder of the program's own or of PYTHONPATH: `tops`.
std::vector<std::string> files_of(std::string module, const std::vector<std::string>& tops,
                                  const std::string& folder) {
  auto bases = tops;
  if (module.starts_with('.')) {
    bases = {folder};
    for (module.erase(0, 1); module.starts_with('.'); module.erase(0, 1)) bases = {folder_of(bases.front())};
  }
  std::vector<std::string> files;
  for (auto path : bases) {
    for (const auto& part : cut(module, ".")) {
      path += "/" + part;
      files.push_back(path + "/__init__.py");
      files.push_back(path + ".py");
    }
  }
  std::erase_if(files, [](const std::string& file) { return !is_file(file); });
  return files;
}

// What `python -m MODULE` or `python DIRECTORY` runs of a package.
std::vector<std::string> mains_of(const std::string& module, const std::vector<std::string>& tops) {
  std::vector<std::string> files;
  for (auto path : tops) {
    for (const auto& part : cut(module, ".")) path += "/" + part;
    if (auto file = path + "/__main__.py"; is_file(file)) files.push_back(std::move(file));
  }
  return files;
}

// How sure it is that a program uses Horovod. `named`: some of its text has the word or chooses modules while
// it runs, or a shell's script alone knows what runs.
enum class Use : std::uint8_t { none, named, imported };

Use use_by(Source first, const std::vector<std::string>& tops) {
  std::vector<Source> open{std::move(first)};
  std::set<std::string> seen;
  auto use = Use::none;
  while (!open.empty()) {
    const auto source = std::move(open.back());
    open.pop_back();
    for (const std::string_view sign : {"horovod", "import_module(", "__import__("})
      if (source.text.find(sign) != std::string::npos) use = Use::named;
    for (const auto& module : imported_by(source.text)) {
      if (is_horovod(module)) return Use::imported;
      for (const auto& file : files_of(module, tops, source.folder)) {
        if (seen.size() == most_sources || !seen.insert(file).second) continue;
        open.push_back({read_file(file, most_source).value_or(std::string{}), folder_of(file)});
      }
    }
  }
  return use;
}

bool is_python(const std::string& word) { return name_of(word).starts_with("python"); }

// The place of what the Python at `i` of these words runs; 0: something for its -m or -c, or nothing.
std::size_t script_behind(const std::vector<std::string>& words, std::size_t i) {
  for (++i; i < words.size() && words[i].starts_with('-'); ++i) {
    if (words[i] == "-m" || words[i] == "-c") return 0;
    if (words[i] == "-W" || words[i] == "-X") ++i;
  }
  return i < words.size() ? i : 0;
}

bool is_python_script(const std::string& file) {
  if (file.ends_with(".py")) return is_file(file);
  const auto line = first_line(file);
  return line.starts_with("#!") && line.find("python") != std::string::npos;
}

bool has_gloo(const std::string& extension) {
  return read_file(extension, most_extension).value_or(std::string{}).find("HOROVOD_GLOO_RENDEZVOUS_ADDR") !=
         std::string::npos;
}

// Horovod for each framework is a library of this name.
bool links_horovod(const ElfNeeds& program) {
  return std::any_of(program.libraries.begin(), program.libraries.end(),
                     [](const std::string& library) { return name_of(library).starts_with("mpi_lib"); });
}

// A shell's words that start a Python, and nothing that could be looked at.
bool hides_a_script(const std::vector<std::string>& words, const std::string& directory) {
  return std::any_of(words.begin(), words.end(), is_python) &&
         std::none_of(words.begin(), words.end(), [&](const std::string& word) {
           return word == "-m" || word == "-c" ||
                  is_python_script(word.starts_with('/') ? word : directory + "/" + word);
         });
}

class Reader {
 public:
  Reader(const std::string& directory, const wire::EnvPairs& env)
      : directory_(directory), paths_(cut(wire::value_of(env, "PYTHONPATH"), ":")) {}

  // The first of a command's words that is a script of Python's or something for its -m or -c decides.
  [[nodiscard]] Use use(const std::vector<std::string>& words, int depth = 0) const {
    auto best = Use::none;
    std::size_t script = 0;
    for (std::size_t i = 0; i < std::min(words.size(), most_words); ++i) {
      const auto& word = words[i];
      if (is_launcher(word)) return Use::none;
      const auto path = word.starts_with('/') ? word : directory_ + "/" + word;
      if (is_python(word)) {
        script = script_behind(words, i);
        if (depth > 0 && python_.empty()) python_ = word;
      } else if (script > 0 && i == script) {
        return std::max(best, by_script(path));
      }
      const auto text = depth <= deepest_script ? text_for_shell(words, i, "", directory_) : std::nullopt;
      if (text) best = std::max(best, by_text(*text, depth));
      if (!text && i > 0 && words[i - 1] == "-c")
        best = std::max(best, use_by({word, directory_}, tops(directory_)));
      if (i > 0 && words[i - 1] == "-m") {
        // numactl has a -m as well.
        for (const auto& file : files_of(word, tops(directory_), directory_))
          best = std::max(best, by_file(file, directory_));
        for (const auto& file : mains_of(word, tops(directory_)))
          best = std::max(best, by_file(file, directory_));
      }
      if (best == Use::imported) return best;
      if (text || word.starts_with('-')) continue;
      const auto program = read_elf_file(path);
      if (program && links_horovod(*program)) return Use::imported;
      if (!program && is_python_script(path)) return std::max(best, by_file(path, folder_of(path)));
    }
    return best;
  }
  // That a shell's text names, if it does.
  [[nodiscard]] const std::string& python() const { return python_; }

 private:
  // Of whatever name: a package's folder, an archive of modules, a text.
  [[nodiscard]] Use by_script(const std::string& path) const {
    if (const auto main = path + "/__main__.py"; is_file(main)) return by_file(main, path);
    if (!is_file(path)) return Use::none;
    return by_file(path, folder_of(path));
  }
  // Where the interpreter looks for modules, without what is installed with it.
  [[nodiscard]] std::vector<std::string> tops(const std::string& first) const {
    std::vector<std::string> all{first};
    all.insert(all.end(), paths_.begin(), paths_.end());
    return all;
  }
  [[nodiscard]] Use by_text(const std::string& text, int depth) const {
    const auto words = words_of_text(text);
    const auto seen = use(words, depth + 1);
    if (seen != Use::none || starts_ranks(text)) return seen;
    const bool hides = hides_a_program(text, directory_) || hides_a_script(words, directory_);
    return hides ? Use::named : Use::none;
  }
  [[nodiscard]] Use by_file(const std::string& file, const std::string& top) const {
    if (is_archive(file)) return Use::named;  // mostly compressed
    return use_by({read_file(file, most_source).value_or(std::string{}), folder_of(file)}, tops(top));
  }

  const std::string& directory_;
  const std::vector<std::string> paths_;
  mutable std::string python_;
};

// A Horovod that is installed with this interpreter: whether it has Gloo, or nothing.
enum class Installed : std::uint8_t { none, with_gloo, mpi_alone };

Installed installed_with(const std::string& interpreter, const wire::EnvPairs& env) {
  auto found = Installed::none;
  for (const auto& folder : package_folders(interpreter, env)) {
    if (!horovods_of_mpi_alone(folder).empty()) return Installed::mpi_alone;
    if (is_file(folder + "/horovod/__init__.py")) found = Installed::with_gloo;
  }
  return found;
}

}  // namespace

std::vector<std::string> horovods_of_mpi_alone(const std::string& packages) {
  std::vector<std::string> found;
  for (const char* const framework : {"torch", "tensorflow", "mxnet"})
    for (auto& extension : entries(packages + "/horovod/" + framework, "mpi_lib*.so"))
      found.push_back(std::move(extension));
  if (std::any_of(found.begin(), found.end(), has_gloo)) found.clear();
  return found;
}

bool uses_horovod(const std::vector<std::string>& words, const std::string& directory,
                  const wire::EnvPairs& env) {
  if (words.empty()) return false;
  const auto path = wire::value_of(env, "PATH");
  const auto program = io::find_program(words.front(), path, directory);
  if (program.error != 0) return false;
  auto all = words;
  all.front() = program.path;
  const Reader reader(directory, env);
  const auto use = reader.use(all);
  if (use == Use::none) return false;
  const bool by_python = is_python(program.path);
  if (use == Use::imported) return !by_python || installed_with(program.path, env) != Installed::mpi_alone;
  const auto named = reader.python().empty() ? std::string("python3") : reader.python();
  const auto python = by_python ? program : io::find_program(named, path, directory);
  return python.error == 0 && installed_with(python.path, env) == Installed::with_gloo;
}

}  // namespace trainrun::agent
