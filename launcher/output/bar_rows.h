// The progress bars that one stream draws on a terminal: the newest state of each row that it draws over, by
// "\r" or by moving the cursor up, as nested bars do. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainrun::output {

class BarRows {
 public:
  static constexpr std::size_t most_rows = 32;

  // A part of a line that was drawn over: all up to a "\r", which belongs to nobody.
  void draw(std::string_view text);
  // Is the cursor above the lowest row, or does `text` move it there? Then "\n" moves it down, and begins no
  // line of its own.
  [[nodiscard]] bool moves(std::string_view text) const;
  // "\n" behind a `text` that moves(): gives what in it is no bar, an ordinary line that was printed between.
  std::optional<std::string> go_down(std::string_view text);
  // "\n" elsewhere, behind `text`. Does that leave a bar as it is that was drawn there before?
  [[nodiscard]] bool stands_before(std::string_view text) const;
  // Then: the states of the rows above that were not taken yet, and that of this row if it `stands`; else it
  // has been shown with its line.
  std::vector<std::string> end_line(bool stands = false);
  // The stream ended, or its last line is shown as it is: its rows are no longer drawn over.
  void forget();

  // States that were not taken yet, from the upper row to the lower.
  [[nodiscard]] bool waits() const { return waiting_ > 0; }
  std::vector<std::string> take();
  // What comes next is drawn over the row.
  [[nodiscard]] bool returned() const { return returned_; }

 private:
  struct Row {
    std::string text;
    bool waits = false;
  };
  std::string drawn(std::string_view text);
  void keep(const std::string& text);
  void drop(std::map<int, Row>::iterator row);

  std::map<int, Row> rows_;
  std::size_t waiting_ = 0;
  int row_ = 0, up_ = 0;  // where the cursor is, and how far above the lowest row
  bool returned_ = false;
  bool erases_ = false;  // the rows that it goes up to are erased: all that follows is drawn anew
};

}  // namespace trainrun::output
