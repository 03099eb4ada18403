#include "launcher/transport/ssh_config_files.h"

#include <glob.h>
#include <pwd.h>
#include <unistd.h>

#include <array>

#include "launcher/base/fd.h"
#include "launcher/transport/ssh_config_lines.h"

namespace trainrun::transport {
namespace {

constexpr std::size_t largest = std::size_t{1} << 20;
constexpr const char* system_folder = "/etc/ssh";

// As ssh finds it, whatever HOME says. Several threads dial at the same time.
std::string home() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> memory;
  const auto refused = ::getpwuid_r(::geteuid(), &entry, memory.data(), memory.size(), &found);
  return refused != 0 || found == nullptr ? "" : entry.pw_dir;
}

std::string text_of(const std::string& path) {
  const auto text = read_file(path, largest);
  return text ? *text : std::string();
}

std::string text_of_all(std::string pattern, const std::string& folder) {
  if (pattern.starts_with("~/"))
    pattern = home() + pattern.substr(1);
  else if (!pattern.starts_with('/'))
    pattern = folder + "/" + pattern;
  std::string text;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i) text += text_of(found.gl_pathv[i]) + "\n";
  ::globfree(&found);
  return text;
}

}  // namespace

std::optional<std::string> misread_line(const std::string& given, const std::string& address,
                                        const std::string& config_file) {
  const auto own = home() + "/.ssh";
  auto folder = own;  // to which an Include in the file that is read is relative
  SshConfigLines lines(given, address, [&folder](std::string_view pattern) {
    return text_of_all(std::string(pattern), folder);
  });
  if (!config_file.empty()) return lines.misread(text_of(config_file));
  if (auto line = lines.misread(text_of(own + "/config"))) return line;
  folder = system_folder;
  return lines.misread(text_of(folder + "/ssh_config"));
}

}  // namespace trainrun::transport
