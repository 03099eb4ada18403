#include "launcher/agent/env_words.h"

#include <algorithm>

namespace trainrun::agent {

void EnvWords::write(const wire::EnvPairs& pairs, const wire::EnvPairs& more) {
  std::size_t bytes = 0;
  for (const auto* const some : {&pairs, &more})
    for (const auto& [name, value] : *some) bytes += name.size() + value.size() + 2;
  memory_.resize(bytes);
  words_.clear();
  words_.reserve(pairs.size() + more.size());
  auto* at = memory_.data();
  for (const auto* const some : {&pairs, &more}) {
    for (const auto& [name, value] : *some) {
      words_.push_back({{at, name.size()}, at});
      at = std::copy(name.begin(), name.end(), at);
      *at++ = '=';
      at = std::copy(value.begin(), value.end(), at);
      *at++ = '\0';
    }
  }
  std::stable_sort(words_.begin(), words_.end(),
                   [](const Word& a, const Word& b) { return a.name < b.name; });
  const auto first = std::unique(words_.rbegin(), words_.rend(),
                                 [](const Word& a, const Word& b) { return a.name == b.name; });
  words_.erase(words_.begin(), first.base());
}

std::vector<const char*> EnvWords::with(const EnvWords& over) const {
  std::vector<const char*> all;
  all.reserve(words_.size() + over.words_.size());
  auto next = over.words_.begin();
  for (const auto& word : words_) {
    while (next != over.words_.end() && next->name < word.name) ++next;
    if (next == over.words_.end() || next->name != word.name) all.push_back(word.text);
  }
  for (const auto& word : over.words_) all.push_back(word.text);
  return all;
}

}  // namespace trainrun::agent
