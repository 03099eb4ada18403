// Many ranks' output on one screen or in one pipe: whole lines, each with its rank. Pure: bytes in, bytes
// out.
//
// A line is held back until its end is there, so lines of different ranks never mix; any bytes are legal in
// it. A line longer than `longest_line`, or the longest ones when more than `most_held` bytes are held in
// all, are shown before their end: what follows joins them, unless somebody else writes first. On a terminal
// they are cut with a newline.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/base/time.h"
#include "launcher/output/bar_rows.h"
#include "launcher/output/last_words.h"
#include "launcher/wire/messages.h"

namespace trainrun::output {

// Streams of a rank that are not shown: --only-rank, --redirects.
struct Hidden {
  bool out = false, err = false;
};

struct MuxStyle {
  std::vector<std::string> labels;                  // by rank: "[3] ", aligned, or all empty
  bool colour = false;                              // labels get a colour by rank
  bool terminal_out = false, terminal_err = false;  // neutralise escape sequences on these
  bool timestamp = false;
  bool one_file = false;  // stdout and stderr: what is shown of both is in the order of `shown_out`
  bool raw = false;  // one rank is shown, without a label: its bytes pass as they are, whatever worker it has
  std::vector<Hidden> hidden;  // by rank; empty: all are shown
};

// "[ 3] " or "[ 3 gpu2] " for every rank, all of one width.
std::vector<std::string> make_labels(const std::vector<std::string>& hosts_by_rank, bool with_host);

class Mux {
 public:
  static constexpr std::size_t longest_line = 1u << 20;
  static constexpr std::size_t most_held = 16u << 20;

  // `clock` gives the text of a timestamp; it is asked once a line, and only when the style wants one.
  Mux(MuxStyle style, std::function<std::string()> clock);

  // A lane for a worker. `fresh`: it forgets what another worker left in it; else only what it is called
  // changes. Colours go by `rank`. Lanes are numbered without holes; those that MuxStyle has labels for are
  // open from the start.
  void open(std::uint32_t lane, bool fresh, std::string label, std::uint32_t rank, Hidden hidden);

  // Appends what is to be shown now to `shown`.
  void feed(std::uint32_t rank, wire::Output stream, std::string_view bytes, std::string& shown);
  // The rank of a line that was too long, and has ends where the rank wrote none; none was yet.
  [[nodiscard]] std::optional<std::uint32_t> split_rank() const { return split_rank_; }
  // The stream ended, or a pause is long enough that a last line without newline should be seen.
  void finish(std::uint32_t rank, wire::Output stream, std::string& shown);
  // On a terminal "\r" ends a state of a progress bar, and so does a step up of the cursor: what redraw()
  // would show, the newest state of each bar that has changed, each as a line of its own. The last state is
  // shown when the line ends.
  [[nodiscard]] bool bar_waits() const { return bars_waiting_ > 0; }
  void redraw(std::string& shown_out, std::string& shown_err);
  // Elsewhere a "\r" stays what it is, and a bar is a line without an end: held as long as it goes on. To be
  // called every few seconds: each such line ends after its newest whole state, or altogether when it has not
  // changed since; no byte is lost. Other text whose line has not ended since the call before is shown as it
  // is ("iterating....."): what the same rank writes next goes on there, and before anything else the line is
  // ended.
  [[nodiscard]] bool begun_is_held() const { return begun_held_ > 0; }
  void show_begun(std::string& shown_out, std::string& shown_err);
  // Instead of that call: their time begins again.
  void wait_for_begun();
  // Somebody else is about to write.
  void end_open_lines(std::string& shown_out, std::string& shown_err);
  // The rank has paused: shows a line that it has begun on a terminal, unless it is a bar.
  void prompt(std::uint32_t rank, std::string& shown_out, std::string& shown_err);
  // What the rank wrote last to stderr (output/last_words.h), oldest line first; without colours and control
  // characters.
  [[nodiscard]] std::vector<std::string> last_words(std::uint32_t rank) const;
  [[nodiscard]] bool raised(std::uint32_t rank) const { return tails_[rank].raised(); }
  void forget_words(std::uint32_t rank) { tails_[rank] = {}; }
  // The same of stdout: a few lines, for programs that print even their errors there.
  [[nodiscard]] std::vector<std::string> last_output(std::uint32_t rank) const;

 private:
  struct Stream {
    std::string held;         // a line that has not ended yet; of a bar on a terminal only its newest state
    BarRows bars;             // on a terminal
    bool begun_held = false;  // what goes to no terminal
    bool waits_long = false;  // since before the last show_begun()
    std::size_t held_before = 0;  // then, of a bar
    std::string shown_begin;      // of a line that was shown before its end, for the last words
    bool too_long = false;        // that line
  };
  [[nodiscard]] bool passes(std::uint32_t rank, wire::Output stream);
  void pass_lines(std::uint32_t rank, wire::Output stream, std::string_view& bytes, std::string& shown);
  void emit(std::uint32_t rank, wire::Output stream, std::string_view line, std::string& shown);
  void show_line(std::uint32_t rank, wire::Output stream, std::string_view line, std::string& shown);
  void show_label(std::uint32_t rank, wire::Output stream, std::string& shown);
  void show_begin(std::uint32_t rank, wire::Output stream, std::string& shown);
  void show_too_long(std::uint32_t rank, wire::Output stream, std::string& shown);
  bool goes_on(std::uint32_t rank, wire::Output stream, std::string& shown);
  void cut_longest(std::string& shown);
  void end_line(std::uint32_t rank, wire::Output stream, std::string_view line, std::string& shown);
  void draw_bars(Stream& state);
  template <class Change>
  void change_bars(Stream& state, Change&& change);
  void hold_begun(Stream& state);
  void forget_begun(Stream& state);
  [[nodiscard]] bool terminal(wire::Output stream) const {
    return stream == wire::Output::err ? style_.terminal_err : style_.terminal_out;
  }
  void cut(std::uint32_t rank, wire::Output stream, std::size_t size, std::string& shown);
  [[nodiscard]] bool hidden(std::uint32_t rank, wire::Output stream) const {
    if (rank >= style_.hidden.size()) return false;
    return stream == wire::Output::err ? style_.hidden[rank].err : style_.hidden[rank].out;
  }
  using Open = std::pair<std::uint32_t, wire::Output>;
  void interrupt(const Open& open, std::string& shown);
  std::optional<Open>& open_line(wire::Output stream) {
    return stream == wire::Output::err && !style_.one_file ? open_err_ : open_out_;
  }
  [[nodiscard]] std::string& shown_of(wire::Output stream, std::string& out, std::string& err) const {
    return stream == wire::Output::err && !style_.one_file ? err : out;
  }
  Stream& stream_of(std::uint32_t rank, wire::Output stream) {
    return streams_[rank * 2 + (stream == wire::Output::err ? 1 : 0)];
  }

  MuxStyle style_;
  std::function<std::string()> clock_;
  std::vector<std::uint32_t> ranks_;
  std::vector<Stream> streams_;  // two a rank
  std::vector<LastWords> tails_;
  std::vector<LastLines> said_;  // on stdout
  std::optional<std::uint32_t> split_rank_;
  std::size_t held_ = 0;
  std::size_t bars_waiting_ = 0, begun_held_ = 0;  // streams
  std::optional<Open> open_out_, open_err_;        // whose line was shown, and has not ended: open_line()
};

}  // namespace trainrun::output
