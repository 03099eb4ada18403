#include "rendezvous/adapters/horovod_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun::rendezvous {
namespace {

using Verb = HorovodRequest::Verb;

Error bad(std::string what) { return {Code::protocol, std::move(what)}; }

bool is_name(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

std::optional<Verb> verb_of(std::string_view word) {
  if (word == "GET") return Verb::get;
  if (word == "PUT") return Verb::put;
  if (word == "DELETE") return Verb::remove;
  return std::nullopt;
}

}  // namespace

void HorovodRequestReader::add(std::string_view bytes) {
  // What comes behind the request is nobody's: kept out, it costs no memory.
  const auto room = most_head + most_value;
  if (buffer_.size() < room) buffer_ += bytes.substr(0, room - buffer_.size());
}

Result<void> HorovodRequestReader::read_head(std::string_view head) {
  const auto lines = split(head, '\n');
  const auto words = split(trim(lines.front()), ' ');
  if (words.size() != 3 || !words[2].starts_with("HTTP/1."))
    return tl::unexpected(bad("it does not speak HTTP/1.x"));
  const auto verb = verb_of(words[0]);
  if (!verb) return tl::unexpected(bad(fmt::format("it asks to {}", quoted(words[0], 20))));
  const auto path = split(words[1], '/');
  if (path.size() != 3 || !path[0].empty())
    return tl::unexpected(bad(fmt::format("{} is not /SCOPE/KEY", quoted(words[1], 60))));
  request_.verb = *verb;
  request_.scope = path[1];
  request_.key = path[2];

  bool has_size = false;
  for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
    const auto colon = line->find(':');
    const auto name = trim(line->substr(0, colon));
    if (is_name(name, "transfer-encoding")) return tl::unexpected(bad("it sends its value in chunks"));
    if (!is_name(name, "content-length") || colon == std::string_view::npos) continue;
    const auto size = parse_unsigned<std::size_t>(trim(line->substr(colon + 1)));
    if (!size || (has_size && *size != size_)) return tl::unexpected(bad("its Content-Length is no number"));
    has_size = true;
    size_ = *size;
  }
  if (size_ > most_value)
    return tl::unexpected(bad(fmt::format("a value of {} bytes, and {} is the limit", size_, most_value)));
  if (*verb == Verb::put && !has_size) return tl::unexpected(bad("a value without its Content-Length"));
  return {};
}

Result<std::optional<HorovodRequest>> HorovodRequestReader::take() {
  if (!has_head_) {
    const auto from = looked_ < 3 ? 0 : looked_ - 3;
    const auto end = buffer_.find("\r\n\r\n", from);
    if (std::min(end, buffer_.size()) > most_head)
      return tl::unexpected(bad(fmt::format("headers of more than {} bytes", most_head)));
    looked_ = buffer_.size();
    if (end == std::string::npos) return std::optional<HorovodRequest>();
    if (auto ok = read_head(std::string_view(buffer_).substr(0, end)); !ok) return tl::unexpected(ok.error());
    buffer_.erase(0, end + 4);
    has_head_ = true;
  }
  if (buffer_.size() < size_) return std::optional<HorovodRequest>();
  buffer_.resize(size_);
  request_.value = std::move(buffer_);
  return std::optional(std::move(request_));
}

}  // namespace trainrun::rendezvous
