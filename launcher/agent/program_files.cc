#include "launcher/agent/program_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

std::string beginning(const std::string& path, std::size_t most) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text(most, '\0');
  const auto n = file ? ::read(file.get(), text.data(), text.size()) : -1;
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

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
  const auto text = beginning(path, 256);
  return text.substr(0, text.find('\n'));
}

bool is_archive(const std::string& path) {
  const std::string_view local_header = "PK\x03\x04";
  const auto text = beginning(path, 512);
  const auto start = text.starts_with("#!") ? text.find('\n') + 1 : 0;  // npos + 1 is 0
  return std::string_view(text).substr(start).starts_with(local_header);
}

bool is_launcher(const std::string& word) {
  // Those of several MPIs lie side by side as mpirun.openmpi, mpiexec.hydra.
  const auto name = name_of(word);
  const auto own = name.substr(0, name.find('.'));
  for (const std::string_view theirs :
       {"mpirun", "mpiexec", "orterun", "prterun", "oshrun", "srun", "aprun", "mpirun_rsh", "jsrun"})
    if (own == theirs) return true;
  return false;
}

}  // namespace trainrun::agent
