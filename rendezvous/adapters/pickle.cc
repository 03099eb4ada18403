#include "rendezvous/adapters/pickle.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

namespace trainrun::rendezvous {
namespace {

// By their names in Python's pickletools.
enum Opcode : unsigned char {
  proto = 0x80,
  frame = 0x95,
  stop = '.',
  mark = '(',
  memoize = 0x94,
  binput = 'q',
  long_binput = 'r',
  binget = 'h',
  long_binget = 'j',
  short_binunicode = 0x8c,
  binunicode = 'X',
  short_binbytes = 'C',
  binbytes = 'B',
  binint1 = 'K',
  binint2 = 'M',
  binint = 'J',
  empty_tuple = ')',
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple = 't',
  empty_list = ']',
  append = 'a',
  appends = 'e',
  empty_dict = '}',
  setitem = 's',
  setitems = 'u',
};

constexpr unsigned newest_protocol = 5;

}  // namespace

class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : bytes_(bytes) {}

  Result<Pickle> run() {
    while (!stopped_) {
      const auto code = take(1);
      if (code.empty()) break;
      if (!step(static_cast<unsigned char>(code[0])))
        return fail(Code::protocol, why_.empty() ? "a pickle that is broken" : why_);
    }
    if (!stopped_ || stack_.size() != 1 || !bytes_.empty() || is(stack_[0], Kind::mark))
      return fail(Code::protocol, "a pickle that is broken");
    pickle_.root_ = stack_[0];
    return std::move(pickle_);
  }

 private:
  using Kind = Pickle::Kind;
  using Ref = Pickle::Ref;

  // Empty also where there are fewer.
  std::string_view take(std::size_t size) {
    if (bytes_.size() < size) {
      cut_ = true;
      return {};
    }
    const auto out = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return out;
  }
  std::uint32_t number(std::size_t size) {
    std::uint32_t value = 0;
    const auto raw = take(size);
    for (std::size_t i = 0; i < raw.size(); ++i)
      value |= static_cast<std::uint32_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    return value;
  }
  [[nodiscard]] bool is(Ref ref, Kind kind) const { return pickle_.values_[ref].kind == kind; }
  bool push(Pickle::Value value) {
    if (cut_) return false;
    stack_.push_back(static_cast<Ref>(pickle_.values_.size()));
    pickle_.values_.push_back(std::move(value));
    return true;
  }
  bool push_text(Kind kind, std::size_t length_size) {
    const auto size = number(length_size);
    return push({kind, std::string(take(size))});
  }
  // The last `count` of the stack; none of them is a mark.
  std::optional<std::vector<Ref>> pop(std::size_t count) {
    if (stack_.size() < count) return std::nullopt;
    std::vector<Ref> out(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    for (const auto ref : out)
      if (is(ref, Kind::mark)) return std::nullopt;
    stack_.resize(stack_.size() - count);
    return out;
  }
  // And the mark with them.
  std::optional<std::vector<Ref>> pop_to_mark() {
    std::size_t count = 0;
    while (count < stack_.size() && !is(stack_[stack_.size() - 1 - count], Kind::mark)) ++count;
    if (count == stack_.size()) return std::nullopt;
    auto out = pop(count);
    stack_.pop_back();
    return out;
  }
  bool make_tuple(std::optional<std::vector<Ref>> parts) {
    return parts && push({Kind::tuple, {}, 0, std::move(*parts)});
  }
  bool extend(Kind kind, const std::optional<std::vector<Ref>>& parts) {
    if (!parts || stack_.empty() || !is(stack_.back(), kind)) return false;
    if (kind == Kind::dict && parts->size() % 2 != 0) return false;
    auto& all = pickle_.values_[stack_.back()].parts;
    all.insert(all.end(), parts->begin(), parts->end());
    return true;
  }
  bool keep(std::uint32_t as) {
    if (cut_ || stack_.empty() || is(stack_.back(), Kind::mark)) return false;
    memo_[as] = stack_.back();
    return true;
  }
  bool fetch(std::uint32_t what) {
    const auto it = memo_.find(what);
    if (cut_ || it == memo_.end()) return false;
    stack_.push_back(it->second);
    return true;
  }

  bool step(unsigned char code) {
    switch (code) {
      case proto:
        return number(1) <= newest_protocol && !cut_;
      case frame:
        return !take(8).empty();
      case stop:
        return stopped_ = true;
      case mark:
        return push({});
      case memoize:
        return keep(static_cast<std::uint32_t>(memo_.size()));
      case binput:
        return keep(number(1));
      case long_binput:
        return keep(number(4));
      case binget:
        return fetch(number(1));
      case long_binget:
        return fetch(number(4));
      case short_binunicode:
        return push_text(Kind::text, 1);
      case binunicode:
        return push_text(Kind::text, 4);
      case short_binbytes:
        return push_text(Kind::bytes, 1);
      case binbytes:
        return push_text(Kind::bytes, 4);
      case binint1:
        return push({Kind::number, {}, number(1)});
      case binint2:
        return push({Kind::number, {}, number(2)});
      case binint:
        return push({Kind::number, {}, static_cast<std::int32_t>(number(4))});
      case empty_tuple:
        return push({Kind::tuple});
      case tuple1:
        return make_tuple(pop(1));
      case tuple2:
        return make_tuple(pop(2));
      case tuple:
        return make_tuple(pop_to_mark());
      case empty_list:
        return push({Kind::list});
      case append:
        return extend(Kind::list, pop(1));
      case appends:
        return extend(Kind::list, pop_to_mark());
      case empty_dict:
        return push({Kind::dict});
      case setitem:
        return extend(Kind::dict, pop(2));
      case setitems:
        return extend(Kind::dict, pop_to_mark());
      default:
        why_ = fmt::format("a pickle with the opcode 0x{:02x}, which is more than data", code);
        return false;
    }
  }

  std::string_view bytes_;
  Pickle pickle_;
  std::vector<Ref> stack_;
  std::map<std::uint32_t, Ref> memo_;
  bool stopped_ = false, cut_ = false;
  std::string why_;
};

Result<Pickle> Pickle::read(std::string_view bytes) {
  if (bytes.size() > most_bytes)
    return fail(Code::protocol, fmt::format("a pickle of more than {} bytes", most_bytes));
  return PickleMachine(bytes).run();
}

}  // namespace trainrun::rendezvous
