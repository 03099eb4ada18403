#include "launcher/output/mux.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "launcher/base/utf8.h"
#include "launcher/output/terminal_text.h"

namespace trainrun::output {
namespace {

// Behind a pipe there may be a terminal all the same (`| tee`), where "\r" goes back over the tag.
void add_states(std::string_view line, std::string_view label, std::string& shown) {
  while (!line.empty()) {
    const auto end = line.find_first_not_of('\r', line.find('\r'));
    shown += line.substr(0, end);
    if (end == std::string_view::npos) return;
    shown += label;
    line.remove_prefix(end);
  }
}

}  // namespace
std::vector<std::string> make_labels(const std::vector<std::string>& hosts_by_rank, bool with_host) {
  std::size_t host_width = 0;
  for (const auto& host : hosts_by_rank) host_width = std::max(host_width, host.size());
  const auto rank_width = fmt::format("{}", hosts_by_rank.empty() ? 0 : hosts_by_rank.size() - 1).size();
  std::vector<std::string> labels;
  for (std::size_t rank = 0; rank < hosts_by_rank.size(); ++rank) {
    labels.push_back(with_host
                         ? fmt::format("[{:{}} {:{}}] ", rank, rank_width, hosts_by_rank[rank], host_width)
                         : fmt::format("[{:{}}] ", rank, rank_width));
  }
  return labels;
}

Mux::Mux(MuxStyle style, std::function<std::string()> clock)
    : style_(std::move(style)),
      clock_(std::move(clock)),
      streams_(style_.labels.size() * 2),
      tails_(style_.labels.size()),
      said_(style_.labels.size()) {
  for (std::uint32_t lane = 0; lane < style_.labels.size(); ++lane) ranks_.push_back(lane);
}

void Mux::open(std::uint32_t lane, bool fresh, std::string label, std::uint32_t rank, Hidden hidden) {
  if (lane >= streams_.size() / 2) {
    const auto count = static_cast<std::size_t>(lane) + 1;
    style_.labels.resize(count);
    style_.hidden.resize(count);
    streams_.resize(count * 2);
    tails_.resize(count);
    said_.resize(count);
    ranks_.resize(count);
  } else if (fresh) {
    tails_[lane] = {};
    said_[lane] = {};
  }
  style_.labels[lane] = std::move(label);
  style_.hidden.resize(streams_.size() / 2);
  style_.hidden[lane] = hidden;
  ranks_[lane] = rank;
}

void Mux::feed(std::uint32_t rank, wire::Output stream, std::string_view bytes, std::string& shown) {
  if (style_.raw) {
    // One rank alone: its output is ours, byte for byte. Its last words are still worth keeping, and those of
    // ranks that nobody sees.
    if (!hidden(rank, stream)) {
      shown += bytes;
      if (stream == wire::Output::out) return;
    }
  }
  auto& state = stream_of(rank, stream);
  const bool drawn_over = bytes.find('\r') != std::string_view::npos;
  while (!bytes.empty()) {
    if (!drawn_over && passes(rank, stream)) {
      pass_lines(rank, stream, bytes, shown);
      if (bytes.empty()) break;
    }
    const auto newline = bytes.find('\n');
    const auto piece = bytes.substr(0, newline);
    if (newline == std::string_view::npos) {
      state.held += piece;
      held_ += piece.size();
      if (terminal(stream) && !hidden(rank, stream)) draw_bars(state);
      if (!terminal(stream) && !hidden(rank, stream) && !style_.raw && !state.begun_held) hold_begun(state);
      break;
    }
    forget_begun(state);
    bytes.remove_prefix(newline + 1);
    if (state.held.empty()) {
      end_line(rank, stream, piece, shown);
    } else {
      held_ -= state.held.size();
      state.held += piece;
      end_line(rank, stream, std::exchange(state.held, {}), shown);
    }
  }
  if (state.held.size() > longest_line) show_too_long(rank, stream, shown);
  if (held_ > most_held) cut_longest(shown);
}

// The common case, which many ranks' output must not be slow in: whole lines for a pipe or a file, or for
// nobody, and nothing of this rank or another that they have to be put together with.
bool Mux::passes(std::uint32_t rank, wire::Output stream) {
  const auto& state = stream_of(rank, stream);
  const bool unseen = style_.raw || hidden(rank, stream);
  return state.held.empty() && state.shown_begin.empty() &&
         (unseen || (!terminal(stream) && !open_line(stream)));
}

// As end_line() of each; takes them off `bytes`.
void Mux::pass_lines(std::uint32_t rank, wire::Output stream, std::string_view& bytes, std::string& shown) {
  auto lines = bytes.substr(0, bytes.rfind('\n') + 1);  // npos + 1 is 0
  bytes.remove_prefix(lines.size());
  stream == wire::Output::err ? tails_[rank].add_lines(lines) : said_[rank].add_lines(lines);
  if (style_.raw || hidden(rank, stream)) return;
  std::string label;
  show_label(rank, stream, label);
  shown.reserve(shown.size() + lines.size() + (label.empty() ? 0 : lines.size() / 2));
  while (!lines.empty()) {
    const auto size = label.empty() ? lines.size() : lines.find('\n') + 1;
    shown += label;
    shown += lines.substr(0, size);
    lines.remove_prefix(size);
    if (!style_.timestamp || lines.empty()) continue;
    label.clear();
    show_label(rank, stream, label);
  }
}

// All streams are looked at, so some room is made: the next bytes are not to cost that again.
void Mux::cut_longest(std::string& shown) {
  std::vector<std::pair<std::size_t, std::uint32_t>> longest;
  for (std::uint32_t i = 0; i < streams_.size(); ++i)
    if (!streams_[i].held.empty()) longest.emplace_back(streams_[i].held.size(), i);
  std::make_heap(longest.begin(), longest.end());
  while (held_ > most_held - most_held / 64) {
    std::pop_heap(longest.begin(), longest.end());
    const auto index = longest.back().second;
    longest.pop_back();
    show_too_long(index / 2, index % 2 == 1 ? wire::Output::err : wire::Output::out, shown);
  }
}

void Mux::show_too_long(std::uint32_t rank, wire::Output stream, std::string& shown) {
  if (hidden(rank, stream) || style_.raw) return finish(rank, stream, shown);
  if (terminal(stream)) {
    split_rank_ = ranks_[rank];
    return finish(rank, stream, shown);
  }
  stream_of(rank, stream).too_long = true;
  show_begin(rank, stream, shown);
}

void Mux::finish(std::uint32_t rank, wire::Output stream, std::string& shown) {
  auto& state = stream_of(rank, stream);
  forget_begun(state);
  held_ -= state.held.size();
  const auto line = std::exchange(state.held, {});
  if (line.empty() && !state.shown_begin.empty()) return emit(rank, stream, line, shown);
  const bool is_row = state.bars.moves(line);
  if (is_row) end_line(rank, stream, line, shown);
  std::vector<std::string> last;
  change_bars(state, [&](BarRows& bars) {
    if (!is_row && !line.empty()) last = bars.end_line();
    for (auto& bar : bars.take()) last.push_back(std::move(bar));
    bars.forget();
  });
  for (const auto& bar : last) show_line(rank, stream, bar, shown);
  if (!is_row && !line.empty()) emit(rank, stream, line, shown);
}

void Mux::end_line(std::uint32_t rank, wire::Output stream, std::string_view line, std::string& shown) {
  auto& state = stream_of(rank, stream);
  if (!terminal(stream) || hidden(rank, stream) || !state.bars.moves(line)) {
    const bool stands = state.bars.stands_before(line);
    std::vector<std::string> before;
    change_bars(state, [&](BarRows& bars) { before = bars.end_line(stands); });
    for (const auto& bar : before) show_line(rank, stream, bar, shown);
    if (!stands) emit(rank, stream, line, shown);
    return;
  }
  std::optional<std::string> between;
  change_bars(state, [&](BarRows& bars) { between = bars.go_down(line); });
  if (between) emit(rank, stream, *between, shown);
}

template <class Change>
void Mux::change_bars(Stream& state, Change&& change) {
  bars_waiting_ -= state.bars.waits() ? 1 : 0;
  change(state.bars);
  bars_waiting_ += state.bars.waits() ? 1 : 0;
}

void Mux::draw_bars(Stream& state) {
  // A "\r" at the very end may be half of a "\r\n".
  const auto last = std::string_view(state.held).substr(0, state.held.size() - 1).rfind('\r');
  if (last == std::string_view::npos) return;
  change_bars(state, [&](BarRows& bars) { bars.draw(std::string_view(state.held).substr(0, last)); });
  held_ -= last + 1;
  state.held.erase(0, last + 1);
}

void Mux::hold_begun(Stream& state) {
  state.begun_held = true;
  state.held_before = 0;
  state.waits_long = !state.shown_begin.empty();
  ++begun_held_;
}

void Mux::forget_begun(Stream& state) {
  begun_held_ -= state.begun_held ? 1 : 0;
  state.begun_held = false;
}

void Mux::redraw(std::string& shown_out, std::string& shown_err) {
  for (std::size_t i = 0; i < streams_.size() && bars_waiting_ > 0; ++i) {
    auto& state = streams_[i];
    if (!state.bars.waits()) continue;
    --bars_waiting_;
    const auto stream = i % 2 == 1 ? wire::Output::err : wire::Output::out;
    for (const auto& bar : state.bars.take())
      show_line(static_cast<std::uint32_t>(i / 2), stream, bar, shown_of(stream, shown_out, shown_err));
  }
}

void Mux::show_begun(std::string& shown_out, std::string& shown_err) {
  for (std::size_t i = 0; i < streams_.size() && begun_held_ > 0; ++i) {
    auto& state = streams_[i];
    if (!state.begun_held) continue;
    const auto rank = static_cast<std::uint32_t>(i / 2);
    const auto stream = i % 2 == 1 ? wire::Output::err : wire::Output::out;
    auto& shown = shown_of(stream, shown_out, shown_err);
    const auto size = state.held.size();
    const auto newest = std::string_view(state.held).substr(0, size - 1).rfind('\r');
    if (newest != std::string_view::npos) {
      const bool rests = std::exchange(state.held_before, size) == size;
      cut(rank, stream, rests ? size : newest, shown);
    } else if (std::exchange(state.waits_long, true) && !state.held.ends_with('\r')) {
      show_begin(rank, stream, shown);
    }
  }
}

void Mux::wait_for_begun() {
  for (auto& state : streams_) {
    state.held_before = 0;
    state.waits_long = false;
  }
}

void Mux::show_begin(std::uint32_t rank, wire::Output stream, std::string& shown) {
  auto& state = stream_of(rank, stream);
  if (!goes_on(rank, stream, shown)) show_label(rank, stream, shown);
  shown += state.held;
  open_line(stream) = Open{rank, stream};
  if (state.shown_begin.size() < LastWords::longest_line) state.shown_begin += state.held;
  held_ -= state.held.size();
  state.held.clear();
  forget_begun(state);
}

// What it writes belongs to the line that is open; else that of another one ends here.
bool Mux::goes_on(std::uint32_t rank, wire::Output stream, std::string& shown) {
  auto& open = open_line(stream);
  if (!open) return false;
  const auto last = *std::exchange(open, std::nullopt);
  if (last == Open{rank, stream}) return true;
  interrupt(last, shown);
  return false;
}

void Mux::interrupt(const Open& open, std::string& shown) {
  shown += '\n';
  if (stream_of(open.first, open.second).too_long) split_rank_ = ranks_[open.first];
}

void Mux::end_open_lines(std::string& shown_out, std::string& shown_err) {
  if (const auto open = std::exchange(open_out_, std::nullopt)) interrupt(*open, shown_out);
  if (const auto open = std::exchange(open_err_, std::nullopt)) interrupt(*open, shown_err);
}

// Not for the last words: a bar says nothing of an end.
void Mux::cut(std::uint32_t rank, wire::Output stream, std::size_t size, std::string& shown) {
  auto& state = stream_of(rank, stream);
  if (size == 0) return;  // it began with this state
  show_line(rank, stream, std::string_view(state.held).substr(0, size), shown);
  held_ -= size;
  state.held.erase(0, size);
  state.held_before = state.held.size();
  if (state.held.empty()) forget_begun(state);
}

void Mux::prompt(std::uint32_t rank, std::string& shown_out, std::string& shown_err) {
  for (const auto stream : {wire::Output::out, wire::Output::err}) {
    const auto& state = stream_of(rank, stream);
    if (state.held.empty() || !terminal(stream) || state.bars.returned() || state.held.ends_with('\r') ||
        state.bars.moves(state.held))
      continue;
    finish(rank, stream, shown_of(stream, shown_out, shown_err));
  }
}

void Mux::emit(std::uint32_t rank, wire::Output stream, std::string_view line, std::string& shown) {
  auto& state = stream_of(rank, stream);
  const auto begin = std::exchange(state.shown_begin, {});
  const auto add = [&](auto& lines) {
    begin.empty() ? lines.add(line) : lines.add(begin + std::string(line));
  };
  stream == wire::Output::err ? add(tails_[rank]) : add(said_[rank]);
  const bool is_open = open_line(stream) == Open{rank, stream};
  if (begin.empty() || !line.empty() || is_open) show_line(rank, stream, line, shown);  // else it has ended
  state.too_long = false;
}

void Mux::show_label(std::uint32_t rank, wire::Output stream, std::string& shown) {
  if (style_.timestamp) {
    shown += clock_();
    shown += ' ';
  }
  if (style_.colour && terminal(stream) && !style_.labels[rank].empty()) {
    shown += fmt::format("\x1b[{}m{}\x1b[0m", 31 + (ranks_[rank] * 5 + 5) % 6, style_.labels[rank]);
  } else {
    shown += style_.labels[rank];
  }
}

void Mux::show_line(std::uint32_t rank, wire::Output stream, std::string_view line, std::string& shown) {
  if (hidden(rank, stream) || style_.raw) return;
  const bool on_terminal = terminal(stream);
  if (on_terminal) {
    // "\r" redraws a line: what was drawn over is not worth a line of its own.
    while (line.ends_with('\r')) line.remove_suffix(1);
    const auto redraw = line.rfind('\r');
    if (redraw != std::string_view::npos) line.remove_prefix(redraw + 1);
  }
  if (!goes_on(rank, stream, shown)) show_label(rank, stream, shown);
  if (on_terminal)
    shown += neutralised(line);
  else
    add_states(line, style_.labels[rank], shown);
  shown += '\n';
}

std::vector<std::string> Mux::last_words(std::uint32_t rank) const {
  std::vector<std::string> lines;
  for (const auto& line : tails_[rank].lines()) lines.push_back(neutralised(line));
  const auto held = streams_[rank * 2 + 1].shown_begin + streams_[rank * 2 + 1].held;
  if (!held.empty())
    lines.push_back(neutralised(without_colours(first_bytes(held, LastWords::longest_line))));
  return lines;
}

std::vector<std::string> Mux::last_output(std::uint32_t rank) const {
  std::vector<std::string> lines;
  for (const auto& line : said_[rank].lines()) lines.push_back(neutralised(without_colours(line)));
  const auto held = streams_[rank * 2].shown_begin + streams_[rank * 2].held;
  if (!held.empty())
    lines.push_back(neutralised(without_colours(first_bytes(held, LastWords::longest_line))));
  return lines;
}

}  // namespace trainrun::output
