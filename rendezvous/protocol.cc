#include "rendezvous/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/base/hash.h"
#include "launcher/base/utf8.h"
#include "rendezvous/codec.h"

namespace trainrun::rendezvous {

TRAINRUN_COMPILED_HERE(RequestBody)
TRAINRUN_COMPILED_HERE(ReplyBody)

namespace {

// A message's verb is the position of its type in the variant, from 1; the order is part of the protocol.
template <class Variant, std::size_t index = 0>
bool read_body(std::size_t wanted, Variant& body, Reader& reader) {
  if constexpr (index < std::variant_size_v<typename Variant::Alternatives>) {
    if (wanted == index) {
      reader(body.template emplace<index>());
      return reader.finished();
    }
    return read_body<Variant, index + 1>(wanted, body, reader);
  } else {
    return false;
  }
}

template <class Variant>
void write_body(const Variant& body, Writer& writer) {
  std::visit([&](const auto& value) { writer(value); }, body);
}

}  // namespace

std::string one_line(std::string_view text, std::size_t limit) {
  auto shown = printable(text.substr(0, limit));
  if (shown.size() <= limit) return shown;
  while (limit > 0 && (static_cast<unsigned char>(shown[limit]) & 0xc0) == 0x80)
    --limit;  // not amid a character
  shown.resize(limit);
  return shown;
}

std::string describe(const Verdict& verdict) {
  const auto host = one_line(verdict.host, max_name);
  const auto how = one_line(verdict.how, max_text);
  const std::string who = verdict.culprit ? fmt::format("rank {}{}", *verdict.culprit,
                                                        host.empty() ? "" : fmt::format(" on {}", host))
                                          : std::string("a member");
  switch (verdict.kind) {
    case Verdict::Kind::ended:
      return how.empty() ? "the generation ended" : "the generation ended: " + how;
    case Verdict::Kind::lost:
      return fmt::format("{} was lost: {}", who, how);
    case Verdict::Kind::aborted:
      return verdict.culprit ? fmt::format("{} aborted: {}", who, how) : "the world was aborted: " + how;
    case Verdict::Kind::stalled:
      return how;
  }
  return {};
}

std::vector<std::uint32_t> at_fault(const Verdict& verdict) {
  if (verdict.kind == Verdict::Kind::aborted) return {};
  auto ranks = verdict.missing;
  if (verdict.culprit && std::find(ranks.begin(), ranks.end(), *verdict.culprit) == ranks.end())
    ranks.insert(ranks.begin(), *verdict.culprit);
  return ranks;
}

std::string encode(const Request& request) {
  Writer writer;
  writer(static_cast<std::uint8_t>(request.body.index() + 1), request.id, request.generation);
  write_body(request.body, writer);
  return writer.take();
}

std::string encode_reply(std::uint32_t id, const ReplyBody& body) {
  return encode_reply_head(id, body) + encode_reply_fields(body);
}

std::string encode_reply_head(std::uint32_t id, const ReplyBody& body) {
  Writer writer;
  writer(static_cast<std::uint8_t>(body.index() + 1), id);
  return writer.take();
}

std::string encode_reply_fields(const ReplyBody& body) {
  Writer writer;
  write_body(body, writer);
  return writer.take();
}

std::uint64_t digest_of(const std::vector<Member>& members) {
  auto digest = fnv1a_of_nothing;
  for (const auto& member : members) {
    Writer writer;
    writer(member);
    digest = fnv1a(writer.take(), digest);
  }
  return digest;
}

Result<Request> decode_request(std::string_view bytes) {
  Request request;
  Reader reader(bytes);
  std::uint8_t verb = 0;
  reader(verb, request.id, request.generation);
  if (!reader.ok() || verb == 0 || !read_body(std::size_t{verb} - 1, request.body, reader))
    return fail(Code::protocol,
                fmt::format("a rendezvous request of {} bytes (verb {}) is malformed", bytes.size(), verb));
  return request;
}

Result<Reply> decode_reply(std::string_view bytes) {
  Reply reply;
  Reader reader(bytes);
  std::uint8_t verb = 0;
  reader(verb, reply.id);
  if (!reader.ok() || verb == 0 || !read_body(std::size_t{verb} - 1, reply.body, reader))
    return fail(Code::protocol,
                fmt::format("a rendezvous reply of {} bytes (verb {}) is malformed", bytes.size(), verb));
  return reply;
}

void RecordReader::feed(std::string_view bytes) {
  if (taken_ > 0) {
    buffer_.erase(0, taken_);
    taken_ = 0;
  }
  buffer_ += bytes;
}

Result<std::optional<std::string>> RecordReader::next() {
  const auto rest = std::string_view(buffer_).substr(taken_);
  Reader reader(rest);
  std::uint32_t size = 0;
  reader(size);
  if (!reader.ok()) return std::nullopt;
  if (size > limit_)
    return fail(Code::protocol,
                fmt::format("a rendezvous record of {} bytes is above the limit of {}", size, limit_));
  if (rest.size() - 4 < size) return std::nullopt;
  taken_ += 4 + std::size_t{size};
  return std::string(rest.substr(4, size));
}

std::string record_length(std::size_t size) {
  Writer writer;
  writer(static_cast<std::uint32_t>(size));
  return writer.take();
}

}  // namespace trainrun::rendezvous
