#include "rendezvous/adapters/torch_request.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace trainrun::rendezvous {
namespace {

using Op = TorchRequest::Op;

constexpr std::uint32_t magic = 0x3C85F7CE;
constexpr std::uint8_t validate = 0;

constexpr std::array legacy_ops = {Op::set,   Op::compare_set, Op::get,       Op::add,
                                   Op::check, Op::wait,        Op::count_keys};
constexpr std::uint8_t legacy_delete_key = 8;

constexpr std::array current_ops = {Op::set,    Op::compare_set, Op::get,        Op::add,
                                    Op::check,  Op::wait,        Op::count_keys, Op::delete_key,
                                    Op::append, Op::multi_get,   Op::multi_set,  Op::cancel_wait,
                                    Op::ping,   Op::queue_push,  Op::queue_pop,  Op::queue_length};

// Reads from the front of `bytes`; what is not there yet is counted in `needed`.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  template <class Number>
  Number number() {
    std::uint64_t value = 0;
    if (!reach(sizeof(Number))) return {};
    for (std::size_t i = 0; i < sizeof(Number); ++i)
      value |= std::uint64_t{static_cast<std::uint8_t>(bytes_[at_ + i])} << (8 * i);
    at_ += sizeof(Number);
    return static_cast<Number>(value);
  }
  std::string text(std::size_t most, std::string_view what) {
    const auto size = number<std::uint64_t>();
    if (short_) return {};
    if (size > most) {
      if (refused_.empty()) refused_ = fmt::format("a {} of {} bytes, and {} is the limit", what, size, most);
      return {};
    }
    if (!reach(size)) return {};
    at_ += size;
    return std::string(bytes_.substr(at_ - size, size));
  }
  std::string key() { return text(TorchRequests::most_key, "key"); }
  std::string value() { return text(TorchRequests::most_value, "value"); }
  std::size_t count() {
    const auto count = number<std::uint64_t>();
    if (count <= TorchRequests::most_keys) return count;
    refused_ = fmt::format("{} keys at once, and {} is the limit", count, TorchRequests::most_keys);
    return 0;
  }

  [[nodiscard]] bool complete() const { return !short_ && refused_.empty(); }
  [[nodiscard]] bool waits() const { return short_ && refused_.empty(); }
  [[nodiscard]] std::size_t needed() const { return needed_; }
  [[nodiscard]] std::size_t taken() const { return at_; }
  [[nodiscard]] const std::string& refused() const { return refused_; }

 private:
  bool reach(std::size_t size) {
    if (at_ + size > TorchRequests::most_request && refused_.empty())
      refused_ = fmt::format("a request of more than {} bytes", TorchRequests::most_request);
    if (at_ + size <= bytes_.size() && !short_) return true;
    if (!std::exchange(short_, true)) needed_ = at_ + size;
    return false;
  }

  std::string_view bytes_;
  std::size_t at_ = 0, needed_ = 0;
  bool short_ = false;
  std::string refused_;
};

void read_body(Cursor& in, TorchRequest& request) {
  switch (request.op) {
    case Op::ping:
      request.number = in.number<std::uint32_t>();
      return;
    case Op::set:
    case Op::append:
    case Op::queue_push:
      request.keys.push_back(in.key());
      request.values.push_back(in.value());
      return;
    case Op::compare_set:
      request.keys.push_back(in.key());
      request.values.push_back(in.value());
      request.values.push_back(in.value());
      return;
    case Op::add:
      request.keys.push_back(in.key());
      request.number = in.number<std::int64_t>();
      return;
    case Op::get:
    case Op::delete_key:
    case Op::queue_pop:
    case Op::queue_length:
      request.keys.push_back(in.key());
      return;
    case Op::check:
    case Op::wait:
    case Op::multi_get:
      for (auto left = in.count(); left > 0 && in.complete(); --left) request.keys.push_back(in.key());
      return;
    case Op::multi_set:
      for (auto left = in.count(); left > 0 && in.complete(); --left) {
        request.keys.push_back(in.key());
        request.values.push_back(in.value());
      }
      return;
    case Op::count_keys:
    case Op::cancel_wait:
      return;
  }
}

std::optional<Op> op_of(std::uint8_t number, bool current) {
  if (current) {
    if (number == validate || number > current_ops.size()) return std::nullopt;
    return current_ops[number - 1U];
  }
  if (number == legacy_delete_key) return Op::delete_key;
  if (number >= legacy_ops.size()) return std::nullopt;
  return legacy_ops[number];
}

}  // namespace

// Whether the dialect is known. What `current` begins with would be a key of more than a gigabyte in the
// other.
bool TorchRequests::knows_dialect() {
  if (dialect_ != Dialect::unknown) return true;
  Cursor in(std::string_view(buffer_).substr(start_));
  if (in.number<std::uint8_t>() != validate) {
    dialect_ = Dialect::legacy;
    return true;
  }
  const auto number = in.number<std::uint32_t>();
  if (in.waits()) {
    needed_ = in.needed();
    return false;
  }
  if (number == magic) start_ += in.taken();
  dialect_ = number == magic ? Dialect::current : Dialect::legacy;
  return true;
}

Result<std::optional<TorchRequest>> TorchRequests::next() {
  if (buffer_.size() - start_ < needed_) return std::nullopt;
  if (!knows_dialect()) return std::nullopt;
  needed_ = 1;
  Cursor in(std::string_view(buffer_).substr(start_));
  const auto number = in.number<std::uint8_t>();
  if (in.waits()) return std::nullopt;
  const auto op = op_of(number, dialect_ == Dialect::current);
  if (!op)
    return fail(Code::protocol, fmt::format("request {} of torch's TCPStore is not known here", number));
  TorchRequest request{*op};
  read_body(in, request);
  if (!in.refused().empty()) return fail(Code::protocol, in.refused());
  if (in.waits()) {
    needed_ = in.needed();
    return std::nullopt;
  }
  start_ += in.taken();
  if (start_ > buffer_.size() / 2) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
  return request;
}

}  // namespace trainrun::rendezvous
