#include "launcher/agent/python_imports.h"

#include <algorithm>

#include "launcher/agent/program_files.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t longest_module = 200;

bool is_import(std::string_view text) { return text.starts_with("import ") || text.starts_with("from "); }

// `import a` of `try: import a`. What ends in a colon elsewhere, as a line of a text does, is no code.
std::string_view behind_its_block(std::string_view statement) {
  constexpr std::string_view openers[] = {"try",  "except", "else", "finally", "if",
                                          "elif", "with",   "for",  "while",   "def"};
  const auto first = statement.substr(0, statement.find_first_of(" :\t("));
  if (std::find(std::begin(openers), std::end(openers), first) == std::end(openers)) return statement;
  for (auto at = statement.find(':'); at != std::string_view::npos; at = statement.find(':', at + 1))
    if (const auto rest = trim(statement.substr(at + 1)); is_import(rest)) return rest;
  return statement;
}

// `from a import (`
bool opens_a_list(std::string_view line) {
  const auto statement = behind_its_block(line);
  const auto open = statement.find('(');
  return statement.starts_with("from ") && open != std::string_view::npos &&
         statement.substr(0, open).find(" import") != std::string_view::npos;
}

// Without comments. What Python takes for one line is one: after a backslash, and within the parentheses of
// an import.
std::vector<std::string> lines_of(std::string_view source) {
  std::vector<std::string> lines;
  bool goes_on = false, in_parentheses = false;
  for (const auto& written : cut(source, "\n")) {
    auto line = trim(std::string_view(written).substr(0, written.find('#')));
    const bool backslash = line.ends_with('\\');
    if (backslash) line.remove_suffix(1);
    if (goes_on)
      lines.back() += " " + std::string(line);
    else
      lines.emplace_back(line);
    in_parentheses = (in_parentheses || opens_a_list(line)) && line.find(')') == std::string_view::npos;
    goes_on = backslash || in_parentheses;
  }
  return lines;
}

void add_modules(std::string_view statement, std::vector<std::string>& modules) {
  const auto words = cut(statement, " \t,()");
  if (words.size() < 2 || !is_import(statement)) return;
  const bool from = words[0] == "from";
  if (from && (words.size() < 4 || words[2] != "import")) return;
  // What is imported from somewhere may be a module itself.
  const auto before = !from ? std::string() : words[1].ends_with('.') ? words[1] : words[1] + ".";
  for (std::size_t i = from ? 3 : 1; i < words.size(); ++i) {
    if (words[i] == "as")
      ++i;
    else
      modules.push_back(before + words[i]);
  }
}

// The names that stand in calls of `function`.
void add_names(std::string_view source, std::string_view function, std::vector<std::string>& modules) {
  for (auto at = source.find(function); at != std::string_view::npos; at = source.find(function, at + 1)) {
    const auto before =
        source.substr(at < longest_module ? 0 : at - longest_module, std::min(at, longest_module));
    if (before.substr(before.rfind('\n') + 1).find('#') != std::string_view::npos) continue;
    const auto rest = source.substr(at + function.size(), longest_module);
    const auto begin = std::min(rest.find_first_not_of(" \t\r\n"), rest.size());
    if (begin == rest.size() || (rest[begin] != '"' && rest[begin] != '\'')) continue;
    const auto end = rest.find(rest[begin], begin + 1);
    if (end != std::string_view::npos && end > begin + 1)
      modules.emplace_back(rest.substr(begin + 1, end - begin - 1));
  }
}

}  // namespace

std::vector<std::string> imported_by(std::string_view source) {
  std::vector<std::string> modules;
  for (const auto& line : lines_of(source))
    for (const auto& statement : cut(line, ";")) add_modules(behind_its_block(trim(statement)), modules);
  for (const std::string_view function : {"import_module(", "__import__("})
    add_names(source, function, modules);
  return modules;
}

}  // namespace trainrun::agent
