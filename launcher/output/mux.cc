#include "launcher/output/mux.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/utf8.h"

namespace trainrun::output {
namespace {

constexpr std::size_t longest_tail_line = 300;

// Length of a colour sequence (ESC [ digits and ; m) at the start of `text`, or 0.
std::size_t colour_sequence(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const auto end = text.find_first_not_of("0123456789;:", 2);
  return end != std::string_view::npos && text[end] == 'm' && end < 40 ? end + 1 : 0;
}

std::string without_colours(std::string_view line) {
  std::string plain;
  while (!line.empty()) {
    const auto length = colour_sequence(line);
    if (length == 0) plain += line.front();
    line.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return plain;
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

std::string neutralised(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  bool coloured = false;
  for (std::size_t i = 0; i < line.size();) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (const auto length = byte == 0x1b ? colour_sequence(line.substr(i)) : 0; length > 0) {
      out += line.substr(i, length);
      coloured = true;
      i += length;
      continue;
    }
    if (byte >= 0x80) {
      // C1 controls in UTF-8 are C2 80..9F; a lone 80..9F is no valid UTF-8, and some terminals obey it.
      const auto length = utf8_length(line.substr(i));
      const bool c1 = length == 2 && byte == 0xc2 && static_cast<unsigned char>(line[i + 1]) < 0xa0;
      if (length > 0 && !c1) {
        out += line.substr(i, length);
      } else {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(line[c1 ? i + 1 : i]));
      }
      i += std::max<std::size_t>(length, 1);
      continue;
    }
    if (byte < 0x20 && byte != '\t') {
      out += '^';
      out += static_cast<char>(byte + 0x40);
    } else if (byte == 0x7f) {
      out += "^?";
    } else {
      out += line[i];
    }
    ++i;
  }
  if (coloured) out += "\x1b[0m";
  return out;
}

Mux::Mux(MuxStyle style, std::function<std::string()> clock)
    : style_(std::move(style)),
      clock_(std::move(clock)),
      raw_(style_.labels.size() == 1 && style_.labels.front().empty() && !style_.timestamp),
      streams_(style_.labels.size() * 2),
      tails_(style_.labels.size()) {
  for (std::uint32_t lane = 0; lane < style_.labels.size(); ++lane) ranks_.push_back(lane);
}

void Mux::open(std::uint32_t lane, bool fresh, std::string label, std::uint32_t rank, bool hidden) {
  if (lane >= streams_.size() / 2) {
    const auto count = static_cast<std::size_t>(lane) + 1;
    style_.labels.resize(count);
    style_.hidden.resize(count);
    streams_.resize(count * 2);
    tails_.resize(count);
    ranks_.resize(count);
  } else if (fresh) {
    tails_[lane].clear();
  }
  style_.labels[lane] = std::move(label);
  style_.hidden.resize(streams_.size() / 2);
  style_.hidden[lane] = hidden;
  ranks_[lane] = rank;
  raw_ = style_.labels.size() == 1 && style_.labels.front().empty() && !style_.timestamp;
}

void Mux::feed(std::uint32_t rank, wire::Output stream, std::string_view bytes, std::string& shown) {
  if (raw_) {
    // One rank alone: its output is ours, byte for byte. Its last words are still worth keeping.
    if (!hidden(rank)) shown += bytes;
    if (stream == wire::Output::out) return;
  }
  auto& state = stream_of(rank, stream);
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    const auto piece = bytes.substr(0, newline);
    if (newline == std::string_view::npos) {
      state.held += piece;
      held_ += piece.size();
      if (terminal(stream) && !hidden(rank)) note_bar(state);
      break;
    }
    forget_bar(state);
    bytes.remove_prefix(newline + 1);
    if (state.held.empty()) {
      emit(rank, stream, piece, shown);
    } else {
      held_ -= state.held.size();
      state.held += piece;
      emit(rank, stream, state.held, shown);
      state.held.clear();
    }
  }
  if (state.held.size() > longest_line) finish(rank, stream, shown);
  while (held_ > most_held) cut_longest(shown);
}

void Mux::cut_longest(std::string& shown) {
  const auto longest = std::max_element(streams_.begin(), streams_.end(), [](const auto& a, const auto& b) {
    return a.held.size() < b.held.size();
  });
  const auto index = static_cast<std::uint32_t>(longest - streams_.begin());
  finish(index / 2, index % 2 == 1 ? wire::Output::err : wire::Output::out, shown);
}

void Mux::finish(std::uint32_t rank, wire::Output stream, std::string& shown) {
  auto& state = stream_of(rank, stream);
  if (state.held.empty()) return;
  forget_bar(state);
  held_ -= state.held.size();
  const auto line = std::exchange(state.held, {});
  emit(rank, stream, line, shown);
}

void Mux::note_bar(Stream& state) {
  // A "\r" at the very end may be half of a "\r\n".
  const auto last = std::string_view(state.held).substr(0, state.held.size() - 1).rfind('\r');
  if (last == std::string_view::npos) return;
  auto newest = std::string_view(state.held).substr(0, last);
  newest.remove_prefix(newest.rfind('\r') + 1);  // npos + 1 is 0
  state.is_bar = true;
  if (newest.find_first_not_of(" \t") != std::string_view::npos && newest != state.bar) {
    state.bar = newest;
    bars_waiting_ += state.bar_waits ? 0 : 1;
    state.bar_waits = true;
  }
  held_ -= last + 1;
  state.held.erase(0, last + 1);
}

void Mux::forget_bar(Stream& state) {
  bars_waiting_ -= state.bar_waits ? 1 : 0;
  state.is_bar = state.bar_waits = false;
  state.bar.clear();
}

void Mux::redraw(std::string& shown_out, std::string& shown_err) {
  for (std::size_t i = 0; i < streams_.size() && bars_waiting_ > 0; ++i) {
    auto& state = streams_[i];
    if (!state.bar_waits) continue;
    state.bar_waits = false;
    --bars_waiting_;
    const auto stream = i % 2 == 1 ? wire::Output::err : wire::Output::out;
    show_line(static_cast<std::uint32_t>(i / 2), stream, state.bar, i % 2 == 1 ? shown_err : shown_out);
  }
}

void Mux::prompt(std::uint32_t rank, std::string& shown_out, std::string& shown_err) {
  for (const auto stream : {wire::Output::out, wire::Output::err}) {
    const auto& state = stream_of(rank, stream);
    if (!terminal(stream) || state.is_bar || state.held.ends_with('\r')) continue;
    finish(rank, stream, stream == wire::Output::err ? shown_err : shown_out);
  }
}

void Mux::emit(std::uint32_t rank, wire::Output stream, std::string_view line, std::string& shown) {
  if (stream == wire::Output::err) remember(rank, line);
  show_line(rank, stream, line, shown);
}

void Mux::show_line(std::uint32_t rank, wire::Output stream, std::string_view line, std::string& shown) {
  if (hidden(rank) || raw_) return;
  const bool on_terminal = terminal(stream);
  if (on_terminal) {
    // "\r" redraws a line: what was drawn over is not worth a line of its own.
    while (line.ends_with('\r')) line.remove_suffix(1);
    const auto redraw = line.rfind('\r');
    if (redraw != std::string_view::npos) line.remove_prefix(redraw + 1);
  }
  if (style_.timestamp) {
    shown += clock_();
    shown += ' ';
  }
  if (style_.colour && on_terminal) {
    shown += fmt::format("\x1b[{}m{}\x1b[0m", 31 + (ranks_[rank] * 5 + 5) % 6, style_.labels[rank]);
  } else {
    shown += style_.labels[rank];
  }
  if (on_terminal) {
    shown += neutralised(line);
  } else {
    shown += line;
  }
  shown += '\n';
}

void Mux::remember(std::uint32_t rank, std::string_view line) {
  const auto redraw = line.find_last_not_of('\r');
  line = line.substr(0, redraw == std::string_view::npos ? 0 : redraw + 1);
  if (const auto start = line.rfind('\r'); start != std::string_view::npos) line.remove_prefix(start + 1);
  if (line.find_first_not_of(" \t") == std::string_view::npos) return;
  auto& tail = tails_[rank];
  tail.emplace_back(line.substr(0, longest_tail_line));
  if (tail.size() > tail_lines) tail.pop_front();
}

std::vector<std::string> Mux::last_words(std::uint32_t rank) const {
  std::vector<std::string> lines;
  for (const auto& line : tails_[rank]) lines.push_back(neutralised(without_colours(line)));
  const auto& held = streams_[rank * 2 + 1].held;
  if (!held.empty())
    lines.push_back(neutralised(without_colours(std::string_view(held).substr(0, longest_tail_line))));
  return lines;
}

}  // namespace trainrun::output
