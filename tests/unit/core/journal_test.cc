#include "launcher/core/journal.h"

#include <doctest/doctest.h>

#include <string>

#include "launcher/core/record_decoder.h"
#include "launcher/core/replay.h"
#include "launcher/core/spec_record.h"

using namespace trainrun;
using namespace trainrun::core;

namespace {

namespace journal = core::journal;

// Gives every member a value of its own, which is not its default; of enums each in turn.
class Fill {
 public:
  template <class T>
  void operator()(std::string_view, T& value) {
    put(value);
  }

 private:
  template <class T>
  void put(T& value) {
    if constexpr (std::same_as<T, bool>) {
      value = true;
    } else if constexpr (std::integral<T>) {
      value = static_cast<T>(++last_ % 200);
    } else if constexpr (std::is_enum_v<T>) {
      auto next = static_cast<T>(1 + last_ % 3);
      value = is_known(next) ? next : static_cast<T>(1);
    } else {
      fields_of(value, *this);
    }
  }
  template <class Tag>
  void put(Id<Tag>& id) {
    put(id.value);
  }
  void put(std::string& text) { text = "text " + std::to_string(++last_) + std::string("\0\n\xff", 3); }
  void put(Duration& duration) { duration = -milliseconds(++last_); }
  void put(Instant& instant) { instant = Instant(seconds(++last_)); }
  template <class A, class B>
  void put(std::pair<A, B>& both) {
    put(both.first), put(both.second);
  }
  template <class T>
  void put(std::vector<T>& items) {
    items.resize(2);
    for (auto& item : items) put(item);
  }
  template <class T>
  void put(std::optional<T>& some) {
    put(some.emplace());
  }
  template <class T>
  void put(std::shared_ptr<const T>& some) {
    auto made = std::make_shared<T>();
    put(*made);
    some = std::move(made);
  }
  int last_ = 0;
};

// The names and kinds of all that is visited, and of enums how many there are.
class Shape {
 public:
  std::string out;
  template <class T>
  void operator()(std::string_view name, T& value) {
    out.append(name) += ':';
    put(value);
    out += ' ';
  }

 private:
  template <class T>
  void put(T& value) {
    if constexpr (std::is_enum_v<T>) {
      int known = 0;
      while (is_known(static_cast<T>(known))) ++known;
      out += "enum" + std::to_string(known);
    } else if constexpr (std::integral<T>) {
      out += (std::signed_integral<T> ? "i" : "u") + std::to_string(sizeof value);
    } else {
      out += '{';
      fields_of(value, *this);
      out += '}';
    }
  }
  template <class Tag>
  void put(Id<Tag>&) {
    out += "id";
  }
  void put(std::string&) { out += "text"; }
  void put(Duration&) { out += "duration"; }
  void put(Instant&) { out += "instant"; }
  template <class A, class B>
  void put(std::pair<A, B>& both) {
    put(both.first), put(both.second);
  }
  template <class T>
  void put(std::vector<T>&) {
    T item{};
    out += '[', put(item), out += ']';
  }
  template <class T>
  void put(std::optional<T>&) {
    T item{};
    out += '?', put(item);
  }
  template <class T>
  void put(std::shared_ptr<const T>&) {
    T item{};
    out += '?', put(item);
  }
};

template <std::size_t... Is>
std::vector<JobEvent> one_of_each(std::index_sequence<Is...>) {
  return {JobEvent(std::in_place_index<Is>)...};
}
std::vector<JobEvent> all_events() {
  return one_of_each(std::make_index_sequence<std::variant_size_v<JobEvent::Alternatives>>());
}

journal::Header header() {
  journal::Header it{"1.2", "b0b", "2026-11-22T14:03:22.123Z", Instant{seconds(1000)}, {}, {}};
  it.job.id = "0123456789abcdef";
  it.job.hosts.hosts = {{.name = "gpu0", .slots = 2}};
  it.job.programs.push_back({{"./train", "--lr", "3"}, 2, "/w", {{"TOKEN", "hush-1"}}});
  it.job.env = {{"PATH", "/bin"}, {"API_KEY", "hush-2"}};
  it.first = *place(it.job, Generation{1});
  return it;
}

// As a launcher writes it: a job that begins and whose host is ready.
struct Written {
  Written() {
    bytes = journal::begin(header());
    step(milliseconds(1), Begin{});
    step(milliseconds(20), HostReady{HostIndex{0}});
  }
  void step(Duration since, const JobEvent& event) {
    begins.push_back(bytes.size());
    bytes += journal::record(since, event, machine.step(event, header().began + since));
  }
  std::string bytes;
  std::vector<std::size_t> begins;
  JobMachine machine{header().job, header().first};
};

// "2" records, or the message of the error; "2 torn".
std::string read(const std::string& bytes) {
  auto reader = journal::Reader::open(bytes);
  if (!reader) return reader.error().message;
  for (int count = 0;; ++count) {
    const auto entry = reader->next();
    if (!entry) return entry.error().message;
    if (!*entry) return std::to_string(count) + (reader->torn() ? " torn" : "");
  }
}

}  // namespace

TEST_SUITE("core.journal") {
  TEST_CASE("every event is read as it was written") {
    Fill fill;
    for (auto event : all_events()) {
      std::visit([&fill](auto& it) { it.fields(fill); }, event);
      CAPTURE(print(event));
      const auto again = decode<JobEvent>(encode(event));
      REQUIRE(again);
      CHECK(*again == event);
      CHECK(print(*again) == print(event));
      // A part of it is no event, nor is it with something behind.
      const auto bytes = encode(event);
      for (std::size_t i = 0; i < bytes.size(); ++i) CHECK_FALSE(decode<JobEvent>(bytes.substr(0, i)));
      CHECK_FALSE(decode<JobEvent>(bytes + '\0'));
    }
  }

  TEST_CASE("the spec is read as it was written, but for values of variables") {
    auto told = header();
    Fill fill;
    fields_of(told.job, fill);
    const auto bytes = journal::begin(told);
    auto reader = journal::Reader::open(bytes);
    REQUIRE(reader);
    for (auto& [name, value] : told.job.env) value.clear();
    for (auto& program : told.job.programs)
      for (auto& [name, value] : program.env) value.clear();
    CHECK(encode(reader->header()) == encode(told));
  }

  TEST_CASE("what looks like a credential among a program's words is not in the file") {
    auto told = header();
    told.job.programs.front().argv = {"./train", "--api-key", "hunter2", "--password=hunter3", "--lr", "0.1"};
    told.job.elastic.discovery.source = "./hosts.sh --token hunter4";
    const auto bytes = journal::begin(told);
    for (const auto* word : {"--api-key", "--password=<redacted>", "0.1"})
      CHECK(bytes.find(word) != std::string::npos);
    CHECK(bytes.find("hunter") == std::string::npos);
  }

  TEST_CASE("no value of a variable is in the file; their names are, and the words of the program") {
    const auto bytes = journal::begin(header());
    for (const auto* name : {"TOKEN", "API_KEY", "PATH", "--lr"})
      CHECK(bytes.find(name) != std::string::npos);
    for (const auto* value : {"hush", "/bin"}) CHECK(bytes.find(value) == std::string::npos);
  }

  // What is not the same any more would be misread in a journal of another build.
  TEST_CASE("a change of what is in the file changes the schema") {
    Shape shape;
    auto head = header();
    head.fields(shape);
    for (auto event : all_events()) {
      std::visit([&shape](auto& it) { shape.out.append(it.record_name) += "=", it.fields(shape); }, event);
      shape.out += '\n';
    }
    std::uint64_t hash = 14695981039346656037u;
    for (const char c : shape.out) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    INFO(shape.out);
    INFO("if this is a change of the format: raise journal::schema, and put this number here");
    CHECK(journal::schema == 15);
    CHECK(hash == 5610669560143735473u);
  }

  TEST_CASE("a machine decides the same again") {
    Written written;
    auto reader = journal::Reader::open(written.bytes);
    REQUIRE(reader);
    auto replay = Replay::of(reader->header());
    REQUIRE(replay);
    for (int i = 0; i < 2; ++i) {
      const auto entry = reader->next();
      REQUIRE(entry);
      const auto decided = replay->step(std::get<journal::Step>(entry->value()));
      REQUIRE(decided);
      CHECK(decided->as_then);
      CHECK_FALSE(decided->actions.empty());
    }
    CHECK_FALSE(reader->next()->has_value());
  }

  TEST_CASE("what another build decided is seen as other") {
    auto replay = Replay::of(header());
    REQUIRE(replay);
    CHECK_FALSE(replay->step({milliseconds(1), Begin{}, 12345})->as_then);
  }

  TEST_CASE("a host that the job does not have, and a placement that cannot be, are errors") {
    auto replay = Replay::of(header());
    REQUIRE(replay);
    CHECK(replay->step({{}, HostReady{HostIndex{7}}, 0}).error().message ==
          "record 1 names a host that the job does not have");
    auto wrong = header();
    SUBCASE("a host") { wrong.first.seats[1].host = HostIndex{1}; }
    SUBCASE("a program") { wrong.first.seats[1].program = 1; }
    SUBCASE("a rank") { wrong.first.seats[1].rank = Rank{0}; }
    SUBCASE("nobody") { wrong.first.seats.clear(); }
    SUBCASE("no program") { wrong.job.programs.clear(), wrong.first.seats.clear(); }
    CHECK_FALSE(Replay::of(wrong));
  }

  TEST_CASE("the file may end anywhere") {
    const Written written;
    const auto& bytes = written.bytes;
    for (std::size_t end = written.begins[0]; end < bytes.size(); ++end) {
      CAPTURE(end);
      const int whole = end < written.begins[1] ? 0 : 1;
      const bool torn = end != written.begins[0] && end != written.begins[1];
      CHECK(read(bytes.substr(0, end)) == std::to_string(whole) + (torn ? " torn" : ""));
    }
    CHECK(read(bytes) == "2");
    CHECK(read(bytes + std::string(5000, '\0')) == "2 torn");  // after a loss of power
    CHECK(read(bytes.substr(0, written.begins[0] - 1)) ==
          "its header is damaged: the file ends before its end");
  }

  TEST_CASE("damage is an error that says where") {
    const Written written;
    auto bytes = written.bytes;
    bytes[written.begins[1] + 20] ^= 1;
    CHECK(read(bytes) == "record 2 is damaged: its bytes are not those that were written");
    bytes = written.bytes;
    bytes[written.begins[0]] = 0x7f;
    CHECK(read(bytes).starts_with("record 1 is damaged: 2130706"));
    bytes = written.bytes;
    bytes[40] ^= 1;
    CHECK(read(bytes) == "its header is damaged: its bytes are not those that were written");
  }

  TEST_CASE("what is no journal, or one of another schema, is told apart") {
    CHECK(read("") == "it is not a trainrun journal");
    CHECK(read("#!/bin/sh\n") == "it is not a trainrun journal");
    CHECK(read("trainrun journal 999\nand so on").starts_with("it is of schema 999, and this trainrun "));
    CHECK(read("trainrun journal x\n").starts_with("it is of schema ?, "));
    for (const auto* begins : {"", "train", "trainrun journal ", "trainrun journal 7\nx"})
      CHECK(journal::may_be_journal(begins));
    for (const auto* begins : {"x", "trainer", "trainrun journ\n"})
      CHECK_FALSE(journal::may_be_journal(begins));
  }

  TEST_CASE("an end says why") {
    for (const auto why : {journal::End::Why::job_over, journal::End::Why::too_slow}) {
      const auto bytes = journal::begin(header()) + journal::record(why);
      auto reader = journal::Reader::open(bytes);
      REQUIRE(reader);
      CHECK(std::get<journal::End>(reader->next()->value()).why == why);
    }
  }
}
