#include "launch/line_printer.h"

#include <gtest/gtest.h>

#include "launch/tail.h"

namespace colla::launch {
namespace {

using namespace std::chrono_literals;

class LinePrinterTest : public ::testing::Test {
 protected:
  void add(int process, std::string_view text) { printer_.add(process, text, now_, out_); }
  // Lets unfinished lines wait long enough to be shown.
  void pass() {
    now_ += LinePrinter::kShowAfter;
    printer_.tick(now_, out_);
  }

  LinePrinter printer_{{"0: ", "1: "}, /*terminal=*/false};
  LinePrinter terminal_{{"0: ", "1: "}, /*terminal=*/true};
  std::string out_;
  TimePoint now_{};
};

TEST_F(LinePrinterTest, LinesOfProcessesDoNotMix) {
  add(0, "he");
  add(1, "good ");
  add(0, "llo\nyou\n\n");
  add(1, "bye\n");
  EXPECT_EQ(out_, "0: hello\n0: you\n0: \n1: good bye\n");
}

TEST_F(LinePrinterTest, UnfinishedLineIsShownAfterAWhileAndGoesOn) {
  add(0, "loading");
  EXPECT_EQ(out_, "");
  EXPECT_EQ(printer_.nextDeadline(), now_ + LinePrinter::kShowAfter);
  pass();
  EXPECT_EQ(out_, "0: loading");
  EXPECT_EQ(printer_.nextDeadline(), TimePoint::max());
  add(0, "… done\n");
  EXPECT_EQ(out_, "0: loading… done\n");
}

TEST_F(LinePrinterTest, UnfinishedLineYieldsToOthers) {
  add(0, "loading");
  pass();
  add(1, "hello\n");
  add(0, "\n");
  add(0, "next\n");
  EXPECT_EQ(out_, "0: loading\n1: hello\n0: next\n");
}

TEST_F(LinePrinterTest, CarriageReturnStartsTheLineOver) {
  add(0, "10%\r20%\r30%");
  pass();
  add(0, "\r40%\r50%\r\n");
  EXPECT_EQ(out_, "0: 30%\n0: 50%\n");
  out_.clear();
  add(0, "dos\r");
  add(0, "\n");
  EXPECT_EQ(out_, "0: dos\n");
}

TEST_F(LinePrinterTest, OnATerminalItDoesSoInPlace) {
  terminal_.add(0, "10%", now_, out_);
  terminal_.tick(now_ + 1s, out_);
  terminal_.add(0, "\r20%", now_, out_);
  terminal_.tick(now_ + 1s, out_);
  EXPECT_EQ(out_, "0: 10%\r\033[K0: 20%");
}

TEST_F(LinePrinterTest, LongLineIsPassedOnInPiecesAndWhole) {
  const std::string text(10 * LinePrinter::kLongest + 7, 'x');
  for (std::size_t i = 0; i < text.size(); i += 1000) {
    add(0, std::string_view(text).substr(i, 1000));
  }
  EXPECT_EQ(out_.size(), 3 + 10 * LinePrinter::kLongest);
  add(0, "\n");
  EXPECT_EQ(out_, "0: " + text + "\n");
}

TEST_F(LinePrinterTest, FinishShowsWhatIsLeft) {
  add(0, "a");
  add(1, "b");
  printer_.finish(out_);
  EXPECT_EQ(out_, "0: a\n1: b\n");
}

TEST(Tail, KeepsTheLastLinesAndNoMoreOfThem) {
  Tail tail;
  for (int i = 0; i < 100; ++i) tail.add("line " + std::to_string(i) + "\n");
  tail.add("un");
  tail.add("finished");
  const auto lines = tail.lines();
  ASSERT_EQ(lines.size(), Tail::kLines);
  EXPECT_EQ(lines.front(), "line 91");
  EXPECT_EQ(lines.back(), "unfinished");
}

TEST(Tail, BoundsLinesAndShowsTheEndOfAProgressBar) {
  Tail tail;
  for (int i = 0; i < 10000; ++i) tail.add("xxxxxxxxx");
  tail.add("\n1%\r2%\r\n");
  const auto lines = tail.lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_LT(lines[0].size(), Tail::kLongest + 10);
  EXPECT_EQ(lines[1], "2%");
}

}  // namespace
}  // namespace colla::launch
