#include "launcher/agent/preload_rules.h"

#include <algorithm>
#include <map>

#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

std::string_view name_of(std::string_view word) { return word.substr(0, word.find('=')); }

bool counts_at_start(std::string_view name) {
  for (const std::string_view prefix : {"LD_", "GLIBC_", "MALLOC_", "GOMP_", "KMP_", "PYTHON", "LC_"})
    if (name.starts_with(prefix)) return true;
  return name == "OMP_PROC_BIND" || name == "OMP_PLACES" || name == "LANG" || name == "LANGUAGE";
}

void put(std::vector<std::string>& words, const std::string& word) {
  std::erase_if(words, [&](const auto& other) { return name_of(other) == name_of(word); });
  words.push_back(word);
}

}  // namespace

std::optional<std::string> differing_variable(const std::vector<std::string>& zygote,
                                              const std::vector<std::string>& rank) {
  std::map<std::string_view, std::pair<std::string_view, std::string_view>> found;
  for (const auto& word : zygote)
    if (counts_at_start(name_of(word))) found[name_of(word)].first = word;
  for (const auto& word : rank)
    if (counts_at_start(name_of(word))) found[name_of(word)].second = word;
  for (const auto& [name, words] : found)
    if (words.first != words.second) return std::string(name);
  return std::nullopt;
}

std::size_t bytes_of(const std::vector<std::string>& words) {
  std::size_t sum = 0;
  for (const auto& word : words) sum += word.size() + 1;
  return sum;
}

bool is_of(const wire::Preload::Program& program, const wire::Start& order,
           const std::vector<std::string>& rank) {
  return program.argv == order.argv && program.directory == order.directory &&
         std::all_of(program.env.begin(), program.env.end(), [&rank](const auto& pair) {
           return std::find(rank.begin(), rank.end(), pair.first + "=" + pair.second) != rank.end();
         });
}

std::vector<std::string> with_words_of_env(const wire::Preload::Program& program,
                                           std::vector<std::string> rank) {
  for (std::size_t i = 1; i < program.interpreter && i < program.argv.size(); ++i) put(rank, program.argv[i]);
  return rank;
}

std::vector<std::string> zygote_line(const wire::Preload::Program& program) {
  // Python runs this only where it has not run our file: without PYTHONPATH, or without site.
  constexpr const char* refusal = "raise SystemExit('this interpreter runs no sitecustomize of PYTHONPATH')";
  std::vector<std::string> line(program.argv.begin() + program.interpreter, program.argv.end());
  const auto at = line.begin() + (program.command - program.interpreter);
  line.insert(at, {"-c", refusal});
  return line;
}

std::vector<std::string> fields_of(std::string_view packet) {
  std::vector<std::string> fields;
  for (const auto field : split(packet, '\0')) fields.emplace_back(field);
  return fields;
}

std::optional<Forked> parse_forked(std::string_view field) {
  const auto blank = field.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto worker = parse_unsigned<std::uint32_t>(field.substr(0, blank));
  const auto pid = parse_unsigned<std::uint32_t>(field.substr(blank + 1));
  if (!worker || !pid || *pid < 2 || *pid > 0x7fffffff) return std::nullopt;
  return Forked{WorkerId{*worker}, static_cast<pid_t>(*pid)};
}

}  // namespace trainrun::agent
