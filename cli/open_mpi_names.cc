#include "cli/open_mpi_names.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "cli/program_search.h"

namespace trainrun::cli {
namespace {

constexpr std::string_view name = "OMPI_COMM_WORLD_";
constexpr std::size_t most_words = 16;  // what comes later is for the script

// Data and binaries are not read.
bool is_script(const std::string& path, const Inputs& inputs) {
  if (!inputs.is_file(path)) return false;
  return path.ends_with(".py") || path.ends_with(".sh") || inputs.first_line(path).starts_with("#!");
}

bool names_it(const std::string& word, const std::string& directory, const Inputs& inputs) {
  if (word.find(name) != std::string::npos) return true;
  if (word.empty() || word.starts_with('-')) return false;
  const auto path = path_under(directory, word);
  if (!is_script(path, inputs)) return false;
  const auto text = inputs.read_file(path);
  return text && text->find(name) != std::string::npos;
}

}  // namespace

bool names_open_mpi(const std::vector<Program>& programs, const Inputs& inputs) {
  return std::any_of(programs.begin(), programs.end(), [&](const Program& program) {
    const auto words = std::min(program.argv.size(), most_words);
    return std::any_of(program.argv.begin(), program.argv.begin() + static_cast<std::ptrdiff_t>(words),
                       [&](const std::string& word) { return names_it(word, program.directory, inputs); });
  });
}

}  // namespace trainrun::cli
