#include "launcher/agent/accelerate_program.h"

#include <algorithm>
#include <string_view>

#include "launcher/agent/program_files.h"
#include "launcher/agent/python_imports.h"
#include "launcher/base/fd.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t most_source = 1u << 20;

bool names_any(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return text.find(name) != std::string_view::npos; });
}

bool is_of(std::string_view module, std::string_view package) {
  return module.starts_with(package) && (module.size() == package.size() || module[package.size()] == '.');
}

// It makes its world by itself, or says what it runs on. `cpu=args.cpu` says nothing as long as nobody gives
// it on the command line.
bool asks(std::string_view text) {
  return names_any(
      text, {"cpu=True", "cpu = True", "use_cpu", "no_cuda", "ACCELERATE_USE_CPU", "init_process_group"});
}

bool trains_with_accelerate(const std::string& text) {
  if (!names_any(text, {"Accelerator(", "Trainer("})) return false;
  const auto modules = imported_by(text);
  return std::any_of(modules.begin(), modules.end(), [](const std::string& module) {
    return is_of(module, "accelerate") || is_of(module, "transformers") || is_of(module, "trl");
  });
}

using Words = std::vector<std::string>;

Words::const_iterator script_in(const Words& words) {
  const auto script =
      std::find_if(words.begin(), words.end(), [](const auto& word) { return word.ends_with(".py"); });
  const bool is_run =
      script == words.begin() || (!words.empty() && name_of(words.front()).starts_with("python"));
  return is_run ? script : words.end();
}

std::string text_of(const std::string& script, const std::string& directory) {
  return read_file(script.starts_with('/') ? script : directory + "/" + script, most_source).value_or("");
}

}  // namespace

bool names_a_meeting(const Words& words, const std::string& directory) {
  const auto script = script_in(words);
  return script != words.end() && names_any(text_of(*script, directory), {"MASTER_PORT", "init_method"});
}

bool leaves_cpu_unasked(const Words& words, const std::string& directory) {
  const auto script = script_in(words);
  if (script == words.end()) return false;
  for (auto word = script + 1; word != words.end(); ++word) {
    const bool settings = word->ends_with(".json") || word->ends_with(".yaml") || word->ends_with(".yml");
    if (settings || names_any(*word, {"cpu", "no_cuda", "no-cuda"})) return false;
  }
  const auto text = text_of(*script, directory);
  return trains_with_accelerate(text) && !asks(text);
}

bool has_accelerator() {
  for (const char* const name : {"nvidia*", "kfd", "dxg", "davinci*", "neuron*", "cambricon*"})
    if (!entries("/dev", name).empty()) return true;
  return !entries("/dev/dri", "renderD*").empty() || !entries("/dev/accel", "accel*").empty();
}

}  // namespace trainrun::agent
