#include "launcher/core/journal.h"

#include <fmt/format.h>

#include "launcher/base/hash.h"
#include "launcher/base/strings.h"
#include "launcher/core/record_decoder.h"
#include "launcher/core/shown_words.h"
#include "launcher/core/spec_record.h"

namespace trainrun::core::journal {
namespace {

constexpr std::string_view magic = "trainrun journal ";
constexpr std::size_t head_size = 4 + 8;
constexpr std::uint32_t longest_payload = 64u << 20;

void put_number(std::string& out, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
}

std::uint64_t take_number(std::string_view& from, int bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(from[i]);
  from.remove_prefix(bytes);
  return value;
}

std::string framed(const std::string& payload) {
  std::string out;
  out.reserve(head_size + payload.size());
  put_number(out, payload.size(), 4);
  put_number(out, fnv1a(payload), 8);
  return out + payload;
}

std::string first_line() { return fmt::format("{}{}\n", magic, schema); }

void drop_values(std::vector<EnvVar>& variables) {
  for (auto& [name, value] : variables) value.clear();
}

tl::unexpected<Error> damaged(std::size_t number, std::string_view how) {
  const auto which = number == 0 ? std::string("its header") : fmt::format("record {}", number);
  return fail(Code::config, fmt::format("{} is damaged: {}", which, how));
}

}  // namespace

std::uint64_t hash_of(const JobActions& actions) { return fnv1a(encode(actions)); }

std::string begin(Header header) {
  drop_values(header.job.env);
  for (auto& program : header.job.programs) {
    drop_values(program.env);
    program.argv = shown_words(program.argv);
  }
  auto& source = header.job.elastic.discovery.source;
  source = shown_command(source);
  return first_line() + framed(encode(Entry{std::move(header)}));
}

// As Entry is encoded, without a copy of the event.
std::string record(Duration since, const JobEvent& event, const JobActions& actions) {
  std::string payload;
  RecordEncoder encoder(payload);
  encoder({}, std::uint64_t{1});
  encoder({}, since), encoder({}, event), encoder({}, hash_of(actions));
  return framed(payload);
}

std::string record(End::Why why) { return framed(encode(Entry{End{why}})); }

bool may_be_journal(std::string_view begins) {
  return begins.substr(0, magic.size()) == magic.substr(0, begins.size());
}

Result<Reader> Reader::open(std::string_view bytes) {
  if (!bytes.starts_with(magic))
    return fail(Code::config, "it is not a trainrun journal", "give a FILE that --journal has written");
  const auto line = bytes.substr(magic.size(), std::min<std::size_t>(bytes.size(), 40) - magic.size());
  const auto number = parse_unsigned<std::uint32_t>(line.substr(0, line.find('\n')));
  if (number != schema)
    return fail(Code::config,
                fmt::format("it is of schema {}, and this trainrun {} reads schema {}",
                            number ? std::to_string(*number) : "?", TRAINRUN_VERSION, schema),
                "use the trainrun that wrote it, or one of its time");
  Reader reader(bytes.substr(first_line().size()));
  const auto first = reader.payload();
  if (!first) return tl::unexpected(first.error());
  if (!*first) return damaged(0, "the file ends before its end");
  auto entry = decode<Entry>(**first);
  auto* header = entry ? std::get_if<Header>(&*entry) : nullptr;
  if (header == nullptr) return damaged(0, "it cannot be read");
  reader.header_ = std::move(*header);
  return reader;
}

// What a file system leaves of a machine that lost power is zeros.
Result<std::optional<std::string_view>> Reader::payload() {
  const auto end = rest_.find_first_not_of('\0') == std::string_view::npos;
  torn_ = !rest_.empty();
  if (end || rest_.size() < head_size) return std::nullopt;
  auto from = rest_;
  const auto length = take_number(from, 4);
  const auto hash = take_number(from, 8);
  if (length > longest_payload) return damaged(number_, fmt::format("{} bytes are too many", length));
  if (from.size() < length) return std::nullopt;
  const auto payload = from.substr(0, length);
  if (fnv1a(payload) != hash) return damaged(number_, "its bytes are not those that were written");
  rest_ = from.substr(length);
  torn_ = false;
  ++number_;
  return payload;
}

Result<std::optional<Entry>> Reader::next() {
  const auto number = number_;
  const auto bytes = payload();
  if (!bytes) return tl::unexpected(bytes.error());
  if (!*bytes) return std::nullopt;
  auto entry = decode<Entry>(**bytes);
  if (!entry || std::holds_alternative<Header>(*entry)) return damaged(number, "it cannot be read");
  return entry;
}

}  // namespace trainrun::core::journal
