#include "launcher/agent/horovod_program.h"

#include <algorithm>
#include <set>
#include <utility>

#include "launcher/agent/elf.h"
#include "launcher/agent/program_files.h"
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

// Files that might be the module, in a folder of the program's own.
std::vector<std::string> files_of(std::string module, const std::string& top, const std::string& folder) {
  std::string base = top;
  if (module.starts_with('.')) {
    base = folder;
    for (module.erase(0, 1); module.starts_with('.'); module.erase(0, 1)) base = folder_of(base);
  }
  std::vector<std::string> files;
  std::string path = base;
  for (const auto& part : cut(module, ".")) {
    path += "/" + part;
    files.push_back(path + "/__init__.py");
    files.push_back(path + ".py");
  }
  std::erase_if(files, [](const std::string& file) { return !is_file(file); });
  return files;
}

// `top`: where the interpreter looks for modules first.
bool leads_to_horovod(Source first, const std::string& top) {
  std::vector<Source> open{std::move(first)};
  std::set<std::string> seen;
  while (!open.empty()) {
    const auto source = std::move(open.back());
    open.pop_back();
    for (const auto& module : imported_by(source.text)) {
      if (is_horovod(module)) return true;
      for (const auto& file : files_of(module, top, source.folder)) {
        if (seen.size() == most_sources || !seen.insert(file).second) continue;
        open.push_back({read_file(file, most_source).value_or(std::string{}), folder_of(file)});
      }
    }
  }
  return false;
}

bool script_leads_to_horovod(const std::string& file) {
  const auto folder = folder_of(file);
  return leads_to_horovod({read_file(file, most_source).value_or(std::string{}), folder}, folder);
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
bool links_horovod(const std::string& file) {
  const auto needs = read_elf_file(file);
  return needs &&
         std::any_of(needs->libraries.begin(), needs->libraries.end(),
                     [](const std::string& library) { return name_of(library).starts_with("mpi_lib"); });
}

// The first of a command's words that is a script or something for Python's -m or -c decides.
bool any_imports(const std::vector<std::string>& words, const std::string& directory) {
  const auto path_of = [&](const std::string& word) {
    return word.starts_with('/') ? word : directory + "/" + word;
  };
  for (std::size_t i = 0; i < std::min(words.size(), most_words); ++i) {
    const auto& word = words[i];
    if (is_launcher(word)) return false;
    const bool more = i + 1 < words.size();
    if (word == "-m" && more) {
      // numactl has a -m as well.
      const auto files = files_of(words[i + 1], directory, directory);
      if (std::any_of(files.begin(), files.end(), [&](const std::string& file) {
            return leads_to_horovod({read_file(file, most_source).value_or(std::string{}), folder_of(file)},
                                    directory);
          }))
        return true;
    }
    if (word == "-c" && more) {
      if (leads_to_horovod({words[i + 1], directory}, directory)) return true;
      if (any_imports(cut(words[i + 1], " \t\n;&|()'\"`"), directory)) return true;
    }
    if (word.starts_with('-')) continue;
    if (links_horovod(path_of(word))) return true;
    if (is_python_script(path_of(word))) return script_leads_to_horovod(path_of(word));
  }
  return false;
}

}  // namespace

std::vector<std::string> imported_by(std::string_view source) {
  std::vector<std::string> modules;
  for (const auto& line : cut(source, "\n;")) {
    const auto words = cut(line, " \t\r,");
    if (words.size() < 2) continue;
    if (words[0] == "from" && words.size() > 3 && words[2] == "import") {
      // What is imported may be a module itself.
      for (std::size_t i = 3; i < words.size() && words[i] != "as" && !words[i].starts_with('#'); ++i)
        modules.push_back(words[1] + (words[1].ends_with('.') ? "" : ".") + words[i]);
    } else if (words[0] == "import") {
      for (std::size_t i = 1; i < words.size() && !words[i].starts_with('#'); ++i) {
        if (words[i] == "as")
          ++i;
        else
          modules.push_back(words[i]);
      }
    }
  }
  return modules;
}

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
  const auto program = io::find_program(words.front(), wire::value_of(env, "PATH"), directory);
  if (program.error != 0) return false;
  auto all = words;
  all.front() = program.path;
  if (!any_imports(all, directory)) {
    const auto script = words_of_script(program.path);
    if (script.empty() || !any_imports(script, directory)) return false;
  }
  if (!name_of(program.path).starts_with("python")) return true;
  for (const auto& folder : package_folders(program.path, env))
    if (!horovods_of_mpi_alone(folder).empty()) return false;
  return true;
}

}  // namespace trainrun::agent
