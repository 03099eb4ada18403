#include "launcher/agent/program_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t most_script = 64u << 10, most_script_words = 256;

}  // namespace

std::vector<std::string> cut(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find_first_of(separators, at), text.size());
    if (end > at) parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::vector<std::string> entries(const std::string& folder, std::string_view pattern) {
  std::vector<std::string> paths;
  DIR* const open = ::opendir(folder.c_str());
  if (open == nullptr) return paths;
  while (const auto* entry = ::readdir(open))
    if (matches_glob(pattern, entry->d_name)) paths.push_back(folder + "/" + entry->d_name);
  ::closedir(open);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> package_folders(const std::string& interpreter, const wire::EnvPairs& env) {
  std::vector<std::string> folders = cut(wire::value_of(env, "PYTHONPATH"), ":");
  const auto prefix = folder_of(folder_of(interpreter));
  for (const auto& base : {prefix, prefix + "/local", wire::value_of(env, "HOME") + "/.local"})
    for (const auto& version : entries(base + "/lib", "python3*"))
      for (const char* const place : {"/site-packages", "/dist-packages"}) folders.push_back(version + place);
  return folders;
}

std::string first_line(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 256> text{};
  const auto n = file ? ::read(file.get(), text.data(), text.size()) : -1;
  const std::string_view all(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  return std::string(all.substr(0, all.find('\n')));
}

bool is_launcher(const std::string& word) {
  const auto name = name_of(word);
  for (const std::string_view theirs : {"mpirun", "mpiexec", "orterun", "prterun", "oshrun", "srun", "aprun"})
    if (name.starts_with(theirs)) return true;
  return false;
}

std::vector<std::string> words_of_script(const std::string& path) {
  const auto first = first_line(path);
  const auto shell = first.find("sh", std::min(first.rfind('/'), first.size()));
  if (!first.starts_with("#!") || shell == std::string::npos) return {};
  std::vector<std::string> words;
  std::set<std::string> seen;
  const auto text = read_file(path, most_script).value_or(std::string{});
  for (const auto line : split(text, '\n')) {
    if (trim(line).starts_with('#')) continue;
    for (auto& word : cut(line, " \t;&|()'\"`")) {
      if (words.size() == most_script_words) return words;
      if (word.find_first_of("$=<>{}[]*?") == std::string::npos && !word.starts_with('-') &&
          seen.insert(word).second)
        words.push_back(std::move(word));
    }
  }
  return words;
}

bool hides_a_program(std::string_view text, const std::string& directory) {
  constexpr std::string_view before[] = {"exec", "time", "nice", "nohup",  "env", "command", "then",
                                         "do",   "else", "eval", "stdbuf", "!",   "{"};
  bool entered = false;  // another directory
  for (const auto& line : cut(text, "\n;&|()")) {
    if (trim(line).starts_with('#')) continue;
    for (const auto& quoted : cut(line, " \t'`")) {
      std::string word = quoted;
      std::erase(word, '"');
      const bool sets = word.find('=') != std::string::npos && !word.starts_with('$');
      if (word.empty() || word.starts_with('-') || sets ||
          std::find(std::begin(before), std::end(before), word) != std::end(before))
        continue;
      const auto variable = word.find('$');
      const bool of_the_line = variable == 0 && word.size() == 2 && word.find_first_of("@*123456789", 1) == 1;
      if (variable != std::string::npos && !of_the_line) return true;
      const auto path = word.starts_with('/') ? word : directory + "/" + word;
      if (entered && word.find('/') != std::string::npos && !is_file(path)) return true;
      entered = entered || word == "cd" || word == "pushd";
      break;  // what follows are its arguments
    }
  }
  return false;
}

bool script_hides_a_program(const std::string& path, const std::string& directory) {
  const auto first = first_line(path);
  const auto shell = first.find("sh", std::min(first.rfind('/'), first.size()));
  if (!first.starts_with("#!") || shell == std::string::npos) return false;
  const auto text = read_file(path, most_script).value_or(std::string{});
  return name_of(path).starts_with("python") || hides_a_program(text, directory);
}

}  // namespace trainrun::agent
