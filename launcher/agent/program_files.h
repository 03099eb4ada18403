// What the files of a program tell by their names and first lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/wire/env_pairs.h"

namespace trainrun::agent {

// What stands between any of the separators; nothing is empty.
std::vector<std::string> cut(std::string_view text, std::string_view separators);

std::string folder_of(const std::string& path);
std::string name_of(const std::string& path);
bool is_file(const std::string& path);

// Of a folder's entries, those that match; paths, sorted.
std::vector<std::string> entries(const std::string& folder, std::string_view pattern);

// Where this interpreter of Python looks for packages, as far as names tell.
std::vector<std::string> package_folders(const std::string& interpreter, const wire::EnvPairs& env);

std::string first_line(const std::string& path);  // 256 bytes at most
// A zip archive, which Python runs; zipapp puts "#!..." before it.
bool is_archive(const std::string& path);

// It starts ranks of its own, which find each other by it.
bool is_launcher(const std::string& word);

}  // namespace trainrun::agent
