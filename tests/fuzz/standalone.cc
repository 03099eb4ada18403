// Runs the fuzz targets without libFuzzer, always the same for a seed.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "tests/fuzz/campaign.h"
#include "tests/fuzz/self_test.h"

namespace trainrun::fuzz {
namespace {

constexpr std::string_view usage =
    "fuzz TARGET [--runs N] [--seed N]   the corpus of the target, and N inputs made from it\n"
    "fuzz TARGET FILE...                 these inputs, in this process\n"
    "fuzz TARGET --export DIRECTORY      its corpus as libFuzzer wants it\n"
    "fuzz --list | --self-test\n";

struct Words {
  const Target* target = nullptr;
  std::uint64_t runs = 1000, seed = 1;
  std::string export_to{};
  std::vector<std::string> files{};
};

bool parse(const std::vector<std::string>& words, Words& out) {
  const auto all = targets();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    const bool has_next = i + 1 < words.size();
    if (i == 0) {
      const auto found =
          std::find_if(all.begin(), all.end(), [&](const Target& target) { return target.name == word; });
      if (found == all.end()) return false;
      out.target = &*found;
    } else if ((word == "--runs" || word == "--seed") && has_next) {
      const auto number = parse_unsigned<std::uint64_t>(words[++i]);
      if (!number) return false;
      (word == "--runs" ? out.runs : out.seed) = *number;
    } else if (word == "--export" && has_next) {
      out.export_to = words[++i];
    } else if (word.starts_with('-')) {
      return false;
    } else {
      out.files.push_back(word);
    }
  }
  return out.target != nullptr;
}

std::string corpus_of(const Target& target) {
  return fmt::format("{}/corpus/{}", TRAINRUN_FUZZ, target.name);
}

int replay(const Target& target, const std::vector<std::string>& files) {
  for (const auto& file : files) {
    const auto input = read_file(file, std::size_t{1} << 20);
    if (!input) {
      fmt::print(stderr, "{}\n", input.error().message);
      return 2;
    }
    target.run(reinterpret_cast<const std::uint8_t*>(input->data()), input->size());
    fmt::print("{} {}: passed, {} bytes\n", target.name, file, input->size());
  }
  return 0;
}

Result<void> write_file(const std::string& path, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  const bool good = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file != nullptr && std::fclose(file) == 0 && good) return {};
  return fail(Code::config, "cannot write " + path);
}

int export_corpus(const Target& target, const std::string& directory) {
  const auto seeds = read_corpus(corpus_of(target));
  Result<void> done = seeds.map([](const auto&) {});
  std::filesystem::create_directories(directory);
  for (std::size_t i = 0; done && i < seeds->size(); ++i) {
    done = write_file(fmt::format("{}/{}", directory, (*seeds)[i].name), (*seeds)[i].bytes);
  }
  if (!done) fmt::print(stderr, "{}\n", done.error().message);
  return done ? 0 : 2;
}

int run_one(const Words& words) {
  const auto& target = *words.target;
  auto seeds = read_corpus(corpus_of(target));
  auto dictionary = read_dictionary(fmt::format("{}/{}.dict", TRAINRUN_FUZZ, target.name));
  if (!seeds || !dictionary) {
    fmt::print(stderr, "{}\n", (seeds ? dictionary.error() : seeds.error()).message);
    return 2;
  }
  const auto outcome = run({.target = target,
                            .seeds = std::move(*seeds),
                            .words = std::move(*dictionary),
                            .seed = words.seed,
                            .runs = words.runs});
  fmt::print("{}: {} inputs, {} of them taken by the parser, seed {}\n", target.name, outcome.tried,
             outcome.accepted, words.seed);
  if (outcome.passed) return 0;
  fmt::print("FAILED: {}\n", outcome.how);
  if (outcome.has_input) {
    const auto path = std::filesystem::absolute(fmt::format("fuzz-{}.input", target.name)).string();
    const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
    if (const auto kept = write_file(path, outcome.input); !kept) fmt::print("{}\n", kept.error().message);
    fmt::print("replay: {} {} {}\n", shell_quote(program), target.name, shell_quote(path));
  }
  return 1;
}

int fuzz_main(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"--list"}) {
    for (const auto& target : targets()) fmt::print("{}\n", target.name);
    return 0;
  }
  if (arguments == std::vector<std::string>{"--self-test"}) return self_test();
  Words words;
  if (!parse(arguments, words)) {
    fmt::print(stderr, "{}", usage);
    return 2;
  }
  if (!words.files.empty()) return replay(*words.target, words.files);
  if (!words.export_to.empty()) return export_corpus(*words.target, words.export_to);
  return run_one(words);
}

}  // namespace
}  // namespace trainrun::fuzz

// One request for more memory than any length limit allows is a failure, as it is with libFuzzer.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=512:detect_stack_use_after_return=1";
}

int main(int argc, char** argv) { return trainrun::fuzz::fuzz_main({argv + 1, argv + argc}); }
