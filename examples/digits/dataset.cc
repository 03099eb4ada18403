#include "dataset.h"

#include <zlib.h>

#include <charconv>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace digits {
namespace {

std::string read_gzip(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::string text;
  std::array<char, 65536> buffer;
  int got = 0;
  while ((got = gzread(file.get(), buffer.data(), buffer.size())) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  if (got < 0) throw std::runtime_error("cannot read " + path + ": it is damaged");
  return text;
}

// The next number of the line and the comma after it, 0..limit.
int take_number(std::string_view& line, int limit, const std::string& where) {
  int value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{} || value < 0 || value > limit)
    throw std::runtime_error(where + ": expected a number from 0 to " + std::to_string(limit));
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (!line.empty() && line.front() == ',') line.remove_prefix(1);
  return value;
}

}  // namespace

Dataset read_dataset(const std::string& path) {
  const std::string text = read_gzip(path);
  std::string_view rest = text;
  Dataset dataset;
  for (int number = 1; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    auto line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::string where = path + ":" + std::to_string(number);
    Digit digit{};
    for (auto& pixel : digit.pixel) pixel = static_cast<float>(take_number(line, 16, where)) / 16.0F;
    digit.label = take_number(line, classes - 1, where);
    if (!line.empty()) throw std::runtime_error(where + ": expected 65 columns");
    (number % 5 == 0 ? dataset.held_out : dataset.train).push_back(digit);
  }
  if (dataset.held_out.empty()) throw std::runtime_error(path + " holds too few digits");
  return dataset;
}

}  // namespace digits
