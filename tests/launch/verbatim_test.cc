#include "launch/verbatim.h"

#include <gtest/gtest.h>

namespace colla::launch {
namespace {

TEST(Verbatim, LinesOfOthersWaitForItsOwnToEnd) {
  Verbatim stream(/*terminal=*/false);
  std::string out;
  std::string lines = "[worker 1] a\n";
  stream.interleave(lines, out);
  EXPECT_EQ(out, "[worker 1] a\n");
  stream.add("one", lines, out);
  lines = "[worker 1] b\n";
  stream.interleave(lines, out);
  stream.add("\r", lines, out);
  stream.interleave(lines, out);
  EXPECT_EQ(out, "[worker 1] a\none\r");
  stream.add(" line\ntwo\nthr", lines, out);
  EXPECT_EQ(out, "[worker 1] a\none\r line\ntwo\n[worker 1] b\nthr");
  EXPECT_EQ(lines, "");
}

TEST(Verbatim, ButNotForEver) {
  Verbatim stream(/*terminal=*/false);
  std::string out;
  std::string lines(Verbatim::kMostWaiting, 'x');
  stream.add("never ending", lines, out);
  stream.interleave(lines, out);
  EXPECT_EQ(out, "never ending");
  lines += "\n";
  stream.interleave(lines, out);
  EXPECT_TRUE(out.starts_with("never ending\nxxx"));
}

TEST(Verbatim, OnATerminalABarIsErasedAndOtherTextIsKept) {
  Verbatim stream(/*terminal=*/true);
  std::string out;
  std::string lines;
  stream.add("Epoch 1/2\n\r1/9 [>..]\033[K", lines, out);
  lines = "a\n";
  stream.interleave(lines, out);
  EXPECT_EQ(out, "Epoch 1/2\n\r1/9 [>..]\033[K\r\033[Ka\n");
  out.clear();
  stream.add("name? ", lines, out);
  lines = "b\n";
  stream.interleave(lines, out);
  EXPECT_EQ(out, "name? \nb\n");
  out.clear();
  stream.interrupt(out);
  EXPECT_EQ(out, "");
}

}  // namespace
}  // namespace colla::launch
