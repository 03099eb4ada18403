#include "launcher/output/mux.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainrun::output {
namespace {

constexpr std::size_t longest_tail_line = 300;

// Length of a colour sequence (ESC [ digits and ; m) at the start of `text`, or 0.
std::size_t colour_sequence(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const auto end = text.find_first_not_of("0123456789;:", 2);
  return end != std::string_view::npos && text[end] == 'm' && end < 40 ? end + 1 : 0;
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
    // C1 controls in UTF-8 are C2 80..9F; a lone 80..9F is no valid UTF-8, and some terminals obey it.
    const bool c1 = byte == 0xc2 && i + 1 < line.size() && static_cast<unsigned char>(line[i + 1]) >= 0x80 &&
                    static_cast<unsigned char>(line[i + 1]) < 0xa0;
    if (c1) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(line[i + 1]));
      i += 2;
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
      tails_(style_.labels.size()) {}

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
      break;
    }
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
  if (held_ > most_held) cut_longest(shown);
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
  held_ -= state.held.size();
  const auto line = std::exchange(state.held, {});
  emit(rank, stream, line, shown);
}

void Mux::emit(std::uint32_t rank, wire::Output stream, std::string_view line, std::string& shown) {
  if (stream == wire::Output::err) remember(rank, line);
  if (hidden(rank) || raw_) return;
  const bool terminal = stream == wire::Output::err ? style_.terminal_err : style_.terminal_out;
  if (terminal) {
    // "\r" redraws a line: what was drawn over is not worth a line of its own.
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto redraw = line.rfind('\r');
    if (redraw != std::string_view::npos) line.remove_prefix(redraw + 1);
  }
  if (style_.timestamp) {
    shown += clock_();
    shown += ' ';
  }
  if (style_.colour && terminal) {
    shown += fmt::format("\x1b[{}m{}\x1b[0m", 31 + (rank * 5 + 5) % 6, style_.labels[rank]);
  } else {
    shown += style_.labels[rank];
  }
  if (terminal) {
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
  for (const auto& line : tails_[rank]) lines.push_back(neutralised(line));
  const auto& held = streams_[rank * 2 + 1].held;
  if (!held.empty()) lines.push_back(neutralised(std::string_view(held).substr(0, longest_tail_line)));
  return lines;
}

}  // namespace trainrun::output
