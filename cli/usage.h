// What --help and --version print. Made from the table of options.
#pragma once

#include <string>

namespace trainrun::cli {

std::string short_help();  // one screen: 24 lines of 80 columns
std::string long_help();   // every option, grouped
std::string version_text();

}  // namespace trainrun::cli
