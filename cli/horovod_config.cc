#include "cli/horovod_config.h"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace trainrun::cli {

namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) {
    if (yaml_parser_initialize(&parser_) == 0) return;
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  ~Parser() { yaml_parser_delete(&parser_); }
  yaml_parser_t* get() { return &parser_; }

 private:
  yaml_parser_t parser_{};
};

// libyaml's nodes of one document, kept for as long as they are read.
class Document {
 public:
  explicit Document(const std::string& text)
      : parser_(text), is_loaded_(yaml_parser_load(parser_.get(), &document_) != 0) {}
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  ~Document() {
    if (is_loaded_) yaml_document_delete(&document_);
  }

  [[nodiscard]] bool is_loaded() const { return is_loaded_; }
  [[nodiscard]] const yaml_parser_t& parser() { return *parser_.get(); }
  [[nodiscard]] const yaml_node_t* root() { return yaml_document_get_root_node(&document_); }
  [[nodiscard]] const yaml_node_t* node(int id) { return yaml_document_get_node(&document_, id); }

 private:
  Parser parser_;
  yaml_document_t document_{};
  bool is_loaded_;
};

// Where more is nested than any file of horovodrun's has: libyaml takes minutes for 100,000 levels.
std::optional<yaml_mark_t> too_deep(const std::string& text) {
  constexpr int deepest = 50;
  Parser parser(text);
  int depth = 0;
  for (bool over = false; !over;) {
    yaml_event_t event;
    if (yaml_parser_parse(parser.get(), &event) == 0) return std::nullopt;  // told when it is loaded
    const auto type = event.type;
    const auto mark = event.start_mark;
    yaml_event_delete(&event);
    over = type == YAML_DOCUMENT_END_EVENT || type == YAML_STREAM_END_EVENT;
    if (type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT) ++depth;
    if (type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT) --depth;
    if (depth > deepest) return mark;
  }
  return std::nullopt;
}

std::string place(std::string_view name, const yaml_mark_t& mark) {
  return fmt::format("{}:{}:{}", name, mark.line + 1, mark.column + 1);
}
std::string place(std::string_view name, const yaml_node_t& node) { return place(name, node.start_mark); }

bool is_mapping(const yaml_node_t& node) { return node.type == YAML_MAPPING_NODE; }
bool is_scalar(const yaml_node_t& node) { return node.type == YAML_SCALAR_NODE; }
std::string text_of(const yaml_node_t& node) {
  const auto& scalar = node.data.scalar;
  return {reinterpret_cast<const char*>(scalar.value), scalar.length};
}

// Nothing was written, or that nothing is meant.
bool is_null(const yaml_node_t& node) {
  if (!is_scalar(node) || node.data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
  constexpr std::array<std::string_view, 5> nothing{"", "~", "null", "Null", "NULL"};
  return std::find(nothing.begin(), nothing.end(), text_of(node)) != nothing.end();
}

Error not_a_mapping(std::string_view name, const yaml_node_t& node) {
  return {Code::config, fmt::format("{}: no mapping of names to values", place(name, node)),
          "write it as horovodrun reads it: params:, autotune:, timeline:, stall_check:, library_options:, "
          "logging:, each with its settings indented below"};
}

bool is_group(std::string_view key) {
  for (const std::string_view ours :
       {"params", "autotune", "timeline", "stall_check", "library_options", "logging"})
    if (key == ours) return true;
  return false;
}

// Reads one document; its file's `name` is for the places in it.
class Reader {
 public:
  Reader(Document& document, std::string_view name) : document_(document), name_(name) {}

  Result<std::vector<YamlValue>> read() && {
    const auto* top = document_.root();
    if (top == nullptr || is_null(*top)) return std::move(values_);
    if (!is_mapping(*top)) return tl::unexpected(not_a_mapping(name_, *top));
    const auto ok = each(*top, [this](const std::string& key, const yaml_node_t& value) -> Result<void> {
      if (is_scalar(value) && !is_null(value)) {
        put({key, text_of(value), place(name_, value)});
      } else if (!is_group(key)) {
        if (!is_null(value)) put({key, {}, place(name_, value)});
      } else if (is_mapping(value)) {
        return group(key, value);
      } else if (!is_null(value)) {
        return tl::unexpected(not_a_mapping(name_, value));
      }
      return {};
    });
    if (!ok) return tl::unexpected(ok.error());
    return std::move(values_);
  }

 private:
  // `take(name, value)` of each pair, in the file's order.
  template <typename Take>
  Result<void> each(const yaml_node_t& mapping, const Take& take) {
    const auto& pairs = mapping.data.mapping.pairs;
    for (const auto* pair = pairs.start; pair < pairs.top; ++pair) {
      const auto& key = *document_.node(pair->key);
      if (!is_scalar(key))
        return fail(Code::config, fmt::format("{}: a name is expected", place(name_, key)));
      if (auto ok = take(text_of(key), *document_.node(pair->value)); !ok) return ok;
    }
    return {};
  }

  // "<<" takes in what another mapping has, beneath the group's own. One step: a mapping may hold itself.
  Result<void> group(const std::string& key, const yaml_node_t& mapping) {
    auto ok = each(mapping, [&](const std::string& inner, const yaml_node_t& value) -> Result<void> {
      return inner == "<<" && is_mapping(value) ? entries(key, value) : Result<void>{};
    });
    return ok ? entries(key, mapping) : ok;
  }

  Result<void> entries(const std::string& key, const yaml_node_t& mapping) {
    return each(mapping, [&](const std::string& inner, const yaml_node_t& value) -> Result<void> {
      if (inner == "<<" && is_mapping(value)) return {};
      if (is_null(value)) return {};  // what is not said holds as if the line were not there
      if (!is_scalar(value))
        return fail(Code::config, fmt::format("{}: one value is expected", place(name_, value)));
      put({key + "." + inner, text_of(value), place(name_, value)});
      return {};
    });
  }

  // Of a name that stands there twice the last counts, as where horovodrun reads it.
  void put(YamlValue value) {
    std::erase_if(values_, [&](const YamlValue& one) { return one.key == value.key; });
    values_.push_back(std::move(value));
  }

  Document& document_;
  std::string_view name_;
  std::vector<YamlValue> values_;
};

Error unreadable(std::string_view name, const yaml_parser_t& parser) {
  const std::string problem = parser.problem == nullptr ? "cannot be read" : parser.problem;
  if (parser.error == YAML_READER_ERROR)  // of bytes, before there are lines
    return {Code::config, fmt::format("{}: {} at byte {}", name, problem, parser.problem_offset)};
  return {Code::config, fmt::format("{}: {}", place(name, parser.problem_mark), problem)};
}

}  // namespace

Result<std::vector<YamlValue>> read_yaml(const std::string& text, std::string_view name) {
  if (const auto mark = too_deep(text))
    return fail(Code::config, fmt::format("{}: too deeply nested", place(name, *mark)));
  Document document(text);
  if (!document.is_loaded()) return tl::unexpected(unreadable(name, document.parser()));
  return Reader(document, name).read();
}

}  // namespace trainrun::cli
