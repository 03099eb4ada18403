#include "launcher/output/mux.h"

#include <doctest/doctest.h>

#include "tests/unit/output/muxes.h"

using namespace trainrun;
using namespace trainrun::output;

TEST_SUITE("mux") {
  TEST_CASE("labels have one width") {
    std::vector<std::string> hosts(11, "a");
    hosts[10] = "long";
    CHECK(make_labels(hosts, false).front() == "[ 0] ");
    CHECK(make_labels(hosts, false).back() == "[10] ");
    CHECK(make_labels(hosts, true).front() == "[ 0 a   ] ");
    CHECK(make_labels(hosts, true).back() == "[10 long] ");
    CHECK(make_labels({"a"}, false) == std::vector<std::string>{"[0] "});
    CHECK(make_labels({}, false).empty());
  }

  TEST_CASE("a line is shown whole however it is cut, and any byte passes") {
    std::string text;
    for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
    text += "\nsecond\n\nlast\n";
    Mux whole(plain_style(2), no_clock);
    const auto expected = fed(whole, 1, text);
    for (std::size_t size = 1; size < 40; ++size) {
      CAPTURE(size);
      Mux mux(plain_style(2), no_clock);
      std::string shown;
      for (std::size_t at = 0; at < text.size(); at += size) shown += fed(mux, 1, text.substr(at, size));
      CHECK(shown == expected);
    }
    CHECK(expected.ends_with("[1] second\n[1] \n[1] last\n"));
  }

  TEST_CASE("lines of ranks and streams never mix") {
    Mux mux(plain_style(2), no_clock);
    CHECK(fed(mux, 0, "zero").empty());
    CHECK(fed(mux, 1, "one").empty());
    CHECK(fed(mux, 0, "error", Output::err).empty());
    CHECK(fed(mux, 1, "!\n") == "[1] one!\n");
    CHECK(fed(mux, 0, "!\n", Output::err) == "[0] error!\n");
    CHECK(fed(mux, 0, "!\n") == "[0] zero!\n");
  }

  TEST_CASE("the end of a stream shows a line without newline, once") {
    Mux mux(plain_style(1), no_clock);
    fed(mux, 0, "rest");
    std::string shown;
    mux.finish(0, Output::out, shown);
    mux.finish(0, Output::out, shown);
    CHECK(shown == "[0] rest\n");
  }

  TEST_CASE("of one shown rank all bytes pass, and what the others wrote last is kept") {
    MuxStyle style;
    style.labels = {"", ""};
    style.raw = true;
    style.hidden = {{false, false}, {true, true}};
    Mux mux(style, no_clock);
    CHECK(fed(mux, 0, "a\r\nb") == "a\r\nb");
    CHECK(fed(mux, 1, "hidden error\n").empty());
    CHECK(mux.last_output(1) == std::vector<std::string>{"hidden error"});
  }

  TEST_CASE("hidden ranks are not shown, but their last words are kept") {
    auto style = plain_style(2);
    style.hidden = {{true, true}, {}};
    Mux mux(style, no_clock);
    CHECK(fed(mux, 0, "secret\n", Output::err).empty());
    CHECK(fed(mux, 1, "open\n", Output::err) == "[1] open\n");
    CHECK(mux.last_words(0) == std::vector<std::string>{"secret"});
  }

  TEST_CASE("the last lines of stdout are kept beside, without blank ones, and cut between two characters") {
    Mux mux(plain_style(2), no_clock);
    std::string text = "one\ntwo\n\nthree\nfour\n", umlauts = "x";
    while (umlauts.size() < 400) umlauts += "\u00fc";
    fed(mux, 0, text, Output::out);
    CHECK(mux.last_output(0) == std::vector<std::string>{"two", "three", "four"});
    CHECK(mux.last_words(0).empty());
    fed(mux, 0, umlauts + "\nhalf", Output::out);
    CHECK(mux.last_output(0) == std::vector<std::string>{"three", "four", umlauts.substr(0, 299), "half"});
    CHECK(mux.last_output(1).empty());
    mux.open(0, true, "", 0, {});
    CHECK(fed(mux, 0, umlauts + "\n", Output::err).size() == umlauts.size() + 1);
    CHECK(mux.last_words(0) == std::vector<std::string>{umlauts.substr(0, 299)});
    mux.open(1, true, "", 1, {});
    CHECK(mux.last_output(1).empty());
    mux.forget_words(0);  // it has survived that
    CHECK(mux.last_words(0).empty());
  }

  TEST_CASE("of a rank one stream may be hidden") {
    auto style = plain_style(1);
    style.hidden = {{.out = true, .err = false}};
    Mux mux(style, no_clock);
    CHECK(fed(mux, 0, "into the file\n", Output::out).empty());
    CHECK(fed(mux, 0, "shown\n", Output::err) == "[0] shown\n");
  }

  TEST_CASE("one rank without labels passes byte for byte, and its last words are kept") {
    MuxStyle style;
    style.labels = {""};
    style.raw = true;
    style.terminal_err = true;
    Mux mux(style, no_clock);
    CHECK(fed(mux, 0, "\x1b[2Jhalf", Output::err) == "\x1b[2Jhalf");
    CHECK(fed(mux, 0, " line\r\n", Output::err) == " line\r\n");
    CHECK(mux.last_words(0) == std::vector<std::string>{"^[[2Jhalf line"});
    // A restart may need a second lane, before the old worker has finished.
    mux.open(1, true, "", 0, {});
    CHECK(fed(mux, 1, "\r50%") == "\r50%");
    CHECK(fed(mux, 0, "the last of the old") == "the last of the old");
  }

  TEST_CASE("a timestamp stands before each line, also without labels") {
    auto style = plain_style(1);
    style.timestamp = true;
    int asked = 0;
    Mux mux(style, [&asked] { return "t" + std::to_string(++asked); });
    CHECK(fed(mux, 0, "a\nb\nc") == "t1 [0] a\nt2 [0] b\n");
    style.labels = {""};
    Mux bare(style, [] { return std::string("now"); });
    CHECK(fed(bare, 0, "a\n") == "now a\n");
  }

  TEST_CASE("labels are coloured on a terminal only") {
    auto style = terminal_style(1);
    style.terminal_err = false;
    style.colour = true;
    Mux mux(style, no_clock);
    const auto shown = fed(mux, 0, "x\n");
    CHECK(shown.starts_with("\x1b[3"));
    CHECK(shown.ends_with("m[0] \x1b[0mx\n"));
    CHECK(fed(mux, 0, "x\n", Output::err) == "[0] x\n");
  }

  TEST_CASE("last words are the newest ten lines of stderr, plain and short") {
    Mux mux(plain_style(1), no_clock);
    for (int i = 0; i < 30; ++i) fed(mux, 0, "line " + std::to_string(i) + "\n", Output::err);
    fed(mux, 0, "  \n\n", Output::err);
    fed(mux, 0, "\x1b[31mred\x1b[0m\x07\n", Output::err);
    fed(mux, 0, std::string(5000, 'y'), Output::err);
    const auto words = mux.last_words(0);
    REQUIRE(words.size() == 11);
    CHECK(words[0] == "line 21");
    CHECK(words[9] == "red^G");
    CHECK(words[10] == std::string(300, 'y'));
  }

  TEST_CASE("on a terminal a line that was drawn over shows its last state") {
    Mux mux(terminal_style(1), no_clock);
    CHECK(fed(mux, 0, "10%\r50%\r100%\n") == "[0] 100%\n");
    CHECK(fed(mux, 0, "dos\r\n") == "[0] dos\n");
    CHECK(fed(mux, 0, "x\r\r\n") == "[0] x\n");
    Mux pipe(plain_style(1), no_clock);
    CHECK(fed(pipe, 0, "10%\r100%\n") == "[0] 10%\r[0] 100%\n");
  }

  TEST_CASE("a progress bar shows its newest state when asked, only if it changed, and its end always") {
    Mux mux(terminal_style(2), no_clock);
    CHECK(fed(mux, 0, "\r10%", Output::err).empty());
    CHECK(fed(mux, 0, "\r20%\r30%", Output::err).empty());
    CHECK(mux.bar_waits());
    CHECK(redrawn(mux) == "[0] 20%\n");
    CHECK_FALSE(mux.bar_waits());
    CHECK(redrawn(mux).empty());
    fed(mux, 0, "\r30%", Output::err);
    fed(mux, 1, "a\rb\r", Output::err);
    CHECK(redrawn(mux) == "[0] 30%\n[1] a\n");
    CHECK(fed(mux, 0, "\r100%\n", Output::err) == "[0] 100%\n");
    CHECK_FALSE(mux.bar_waits());
    CHECK(mux.last_words(0) == std::vector<std::string>{"100%"});
  }

  TEST_CASE("nested bars show the newest state of each, and what is printed between is a line at once") {
    Mux mux(terminal_style(1), no_clock);
    std::string shown = fed(mux, 0, "\repoch 0/2", Output::err);
    for (int batch = 0; batch < 1000; ++batch)  // as tqdm draws a bar in the second row
      shown += fed(mux, 0, "\n\rbatch " + std::to_string(batch) + "\x1b[A", Output::err);
    CHECK(shown == "[0] epoch 0/2\n");
    CHECK(mux.bar_waits());
    CHECK(fed(mux, 0, "\repoch 1/2", Output::err).empty());
    CHECK(redrawn(mux) == "[0] batch 999\n");
    CHECK(fed(mux, 0, "\n\rbatch 7\x1b[Awarning: slow\n", Output::err) == "[0] warning: slow\n");
    CHECK(redrawn(mux) == "[0] epoch 1/2\n[0] batch 7\n");
    CHECK(fed(mux, 0, "\r       \x1b[A\repoch 2/2\n", Output::err).empty());
    shown.clear();
    mux.finish(0, Output::err, shown);
    CHECK(shown == "[0] epoch 2/2\n");
    CHECK(fed(mux, 0, "done\n", Output::err) == "[0] done\n");
    CHECK_FALSE(mux.bar_waits());
  }

  TEST_CASE("a row that newlines pass over is shown, and what is above it before what comes next") {
    Mux mux(terminal_style(1), no_clock);
    CHECK(fed(mux, 0, "A\nB\x1b[A\n\nend\n") == "[0] A\n[0] B\n[0] end\n");
    Mux two(terminal_style(1), no_clock);
    std::string shown;
    for (const std::string state : {"0", "50", "100"}) {
      shown += fed(two, 0, "\rA " + state);
      shown += fed(two, 0, "\n\rB " + state + "\x1b[A");
    }
    shown += redrawn(two);
    CHECK(shown == "[0] A 0\n[0] A 100\n[0] B 50\n");  // the newest is not known to be over
    CHECK(fed(two, 0, "\n") == "");
    CHECK(redrawn(two) == "[0] B 100\n");
    CHECK(fed(two, 0, "\nend\n") == "[0] end\n");  // it stands there already
    Mux above(terminal_style(1), no_clock);
    CHECK(fed(above, 0, "A 1\n\x1b[A\x1b[2KA 2\nend\n") == "[0] A 1\n[0] A 2\n[0] end\n");
    Mux wiped(terminal_style(1), no_clock);
    CHECK(fed(wiped, 0, "\rA 1\r   \r\nend\n") == "[0]    \n[0] end\n");
  }

  TEST_CASE("the last state of nested bars is shown when the stream ends") {
    Mux mux(terminal_style(1), no_clock);
    fed(mux, 0, "outer\n\rinner 1\x1b[A\n\rinner 2\x1b[A\router 2", Output::err);
    std::string shown;
    mux.finish(0, Output::err, shown);
    CHECK(shown == "[0] outer 2\n[0] inner 2\n");
    CHECK_FALSE(mux.bar_waits());
  }

  TEST_CASE("a bar without end holds no memory, and into a pipe its bytes stay") {
    Mux mux(terminal_style(1), no_clock);
    std::string shown, expected;
    for (int i = 0; i < 40'000; ++i) {
      mux.feed(0, Output::out, "\r" + std::string(100, static_cast<char>('a' + i % 26)), shown);
      REQUIRE(shown.empty());
    }
    mux.finish(0, Output::out, shown);
    CHECK(shown == "[0] " + std::string(100, static_cast<char>('a' + 39'999 % 26)) + "\n");
    Mux pipe(plain_style(1), no_clock);
    CHECK(fed(pipe, 0, "\ra\rb").empty());
    CHECK_FALSE(pipe.bar_waits());
    CHECK(fed(pipe, 0, "\n") == "[0] \r[0] a\r[0] b\n");
  }

  TEST_CASE("into a pipe a bar that goes on is cut after its newest whole state, and no byte is lost") {
    Mux mux(plain_style(2), no_clock);
    const auto cut = [&mux] {
      std::string out, err;
      mux.show_begun(out, err);
      return out + "|" + err;
    };
    CHECK(fed(mux, 0, "\r10%\r20%\r3", Output::err).empty());
    CHECK(mux.begun_is_held());
    CHECK(cut() == "|[0] \r[0] 10%\r[0] 20%\n");
    fed(mux, 0, "0%\r40%", Output::err);
    CHECK(cut() == "|[0] \r[0] 30%\n");
    CHECK(cut() == "|[0] \r[0] 40%\n");  // it rests: the state is whole
    CHECK_FALSE(mux.begun_is_held());
    CHECK(cut() == "|");
    fed(mux, 0, "\r50%", Output::err);
    CHECK(mux.begun_is_held());
    CHECK(fed(mux, 0, "\r100%\n", Output::err) == "[0] \r[0] 50%\r[0] 100%\n");
    CHECK_FALSE(mux.begun_is_held());
    fed(mux, 0, "dos\r");
    for (int i = 0; i < 3; ++i) CHECK(cut() == "|");  // the end of a line may follow
    CHECK(fed(mux, 0, "\n") == "[0] dos\r\n");
    CHECK(mux.last_words(0) == std::vector<std::string>{"100%"});
  }

  TEST_CASE("into a pipe a line that does not end is shown all the same, and goes on where it is") {
    Mux mux(plain_style(2), no_clock);
    const auto later = [&mux] {
      std::string out, err;
      mux.show_begun(out, err);
      return out + "|" + err;
    };
    CHECK(fed(mux, 0, "iterating.") == "");
    CHECK(later() == "|");  // it may have come just now
    mux.wait_for_begun();
    CHECK(later() == "|");
    CHECK(later() == "[0] iterating.|");
    CHECK_FALSE(mux.begun_is_held());
    fed(mux, 0, "..");
    CHECK(mux.last_output(0) == std::vector<std::string>{"iterating..."});
    CHECK(later() == "..|");
    CHECK(fed(mux, 0, ". done\nnext\n") == ". done\n[0] next\n");
    CHECK(mux.last_output(0) == std::vector<std::string>{"iterating.... done", "next"});
    SUBCASE("another rank's line ends it") {
      fed(mux, 0, "a");
      later();
      CHECK(later() == "[0] a|");
      CHECK(fed(mux, 1, "b\n") == "\n[1] b\n");
      CHECK(fed(mux, 0, "c\n") == "[0] c\n");
      fed(mux, 0, "d");
      later();
      later();
      fed(mux, 1, "e\n");
      CHECK(fed(mux, 0, "\n") == "");  // its line has ended
    }
    SUBCASE("so does a line of trainrun's") {
      fed(mux, 0, "a", Output::err);
      later();
      later();
      std::string out, err;
      mux.end_open_lines(out, err);
      CHECK(out + "|" + err == "|\n");
    }
    SUBCASE("and its own end") {
      fed(mux, 0, "a");
      later();
      later();
      std::string shown;
      mux.finish(0, Output::out, shown);
      CHECK(shown == "\n");
      CHECK(mux.last_output(0).back() == "a");
    }
  }

  TEST_CASE("where stdout and stderr are one file, a line of either ends what is open of the other") {
    auto style = plain_style(2);
    style.one_file = true;
    Mux mux(style, no_clock);
    std::string out, err;
    const auto begun = [&](std::uint32_t rank, std::string_view text, Output stream) {
      fed(mux, rank, text, stream);
      for (int i = 0; i < 2; ++i) mux.show_begun(out, err);
    };
    begun(0, "working", Output::out);
    out += fed(mux, 1, "warning\n", Output::err);
    out += fed(mux, 0, " done\n", Output::out);
    begun(0, "a", Output::out);
    begun(0, "b", Output::err);  // its own other stream is another line
    mux.end_open_lines(out, err);
    CHECK(out == "[0] working\n[1] warning\n[0]  done\n[0] a\n[0] b\n");
    CHECK(err.empty());
  }

  TEST_CASE("bars of hidden ranks, on terminals and of a rank alone are not cut") {
    auto style = plain_style(1);
    style.hidden = {{true, true}};
    MuxStyle bare;
    bare.labels = {""};
    bare.raw = true;
    for (auto each : {style, terminal_style(1), bare}) {
      Mux mux(each, no_clock);
      fed(mux, 0, "\r10%\r20%", Output::err);
      CHECK_FALSE(mux.begun_is_held());
    }
  }

  TEST_CASE("a prompt is shown on a terminal, a bar or a pipe has none") {
    std::string out, err;
    Mux mux(terminal_style(2), no_clock);
    fed(mux, 0, "Name: ");
    fed(mux, 1, "50%\r60%");
    mux.prompt(0, out, err);
    mux.prompt(1, out, err);
    CHECK(out == "[0] Name: \n");
    CHECK(err.empty());
    Mux pipe(plain_style(1), no_clock);
    fed(pipe, 0, "Name: ");
    out.clear();
    pipe.prompt(0, out, err);
    CHECK(out.empty());
  }
}
