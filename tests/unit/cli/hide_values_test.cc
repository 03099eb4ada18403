#include "cli/hide_values.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using Words = std::vector<std::string>;

namespace {

Words shown(Words words) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  trainrun::cli::hide_values(argv);
  return words;
}

}  // namespace

TEST_CASE("values of variables are hidden in every spelling of -x, and nothing else is") {
  const std::pair<Words, Words> rows[] = {
      {{"-x", "TOKEN=abc", "./t"}, {"-x", "TOKEN=***", "./t"}},
      {{"--export", "TOKEN=abc", "./t"}, {"--export", "TOKEN=***", "./t"}},
      {{"-export", "TOKEN=a=c", "./t"}, {"-export", "TOKEN=***", "./t"}},
      {{"-x=TOKEN=abc", "./t"}, {"-x=TOKEN=***", "./t"}},
      {{"--export=TOKEN=abc", "./t"}, {"--export=TOKEN=***", "./t"}},
      {{"-export=TOKEN=abc"}, {"-export=TOKEN=***"}},
      {{"-x", "-x=A=b", "--export", "C=d"}, {"-x", "-x=***", "--export", "C=*"}},  // the first is refused
      {{"-np", "1", "./a", ":", "-x", "B=c", "./b"}, {"-np", "1", "./a", ":", "-x", "B=*", "./b"}},
      {{"-x", "NAME", "--export=NAME", "-x", "EMPTY="}, {"-x", "NAME", "--export=NAME", "-x", "EMPTY="}},
      {{"-genv", "TOKEN", "abc", "-env", "A=b", "./t"}, {"-genv", "TOKEN", "***", "-env", "A=*", "./t"}},
      {{"--mca", "mca_base_env_list", "A=b;C=d;E", "./t"},
       {"--mca", "mca_base_env_list", "A=*******", "./t"}},
      {{"-gmca", "mca_base_env_list", "A;B=c", "-x"}, {"-gmca", "mca_base_env_list", "A;B=*", "-x"}},
      {{"--mca", "btl", "a=b", "--mca", "mca_base_env_list"},
       {"--mca", "btl", "a=b", "--mca", "mca_base_env_list"}},
      {{"--mca=mca_base_env_list", "A=b", "./t"}, {"--mca=mca_base_env_list", "A=*", "./t"}},
      {{"-genv=A=b", "-genv=C", "d", "-env=E=f"}, {"-genv=A=*", "-genv=C", "*", "-env=E=*"}},
      {{"--expor", "A=b", "--ex=C=d", "./t"}, {"--expor", "A=*", "--ex=C=*", "./t"}},
      {{"--env", "all", "./t", "-genv"}, {"--env", "all", "./t", "-genv"}},
      {{"--grace=5", "-X", "A=b", "--env=all", "-", "x", "A=b", "-x"},
       {"--grace=5", "-X", "A=b", "--env=all", "-", "x", "A=b", "-x"}},
  };
  for (const auto& [words, expected] : rows) CHECK(shown(words) == expected);
}
