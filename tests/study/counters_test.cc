#include "study/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::study {
namespace {

TEST(CountersTest, ReadsAPage) {
  const auto all = readPage(
      "# HELP colla_steps_total Steps.\n"
      "colla_steps_total{host=\"a\",rank=\"0\",role=\"worker\"} 12\n"
      "colla_steps_total{host=\"a\",rank=\"1\",role=\"worker\"} 11\n"
      "colla_sent_bytes_total{transport=\"tcp\",peer_host=\"b\",role=\"worker\",rank=\"0\"} 100\n"
      "colla_sent_bytes_total{transport=\"tcp\",peer_host=\"c\",role=\"worker\",rank=\"0\"} 50\n"
      "colla_sent_bytes_total{transport=\"shm\",peer_host=\"\\\"a\\\"\",role=\"worker\",rank=\"0\"}"
      " 7\n"
      "colla_step_seconds_bucket{le=\"0.1\",role=\"worker\",rank=\"0\"} 3\n"
      "colla_ps_pulls_total{role=\"ps\",rank=\"0\"} 4e2\n"
      "garbage{\n");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].role, "ps");
  EXPECT_EQ(all[0].of("colla_ps_pulls_total"), 400);
  EXPECT_EQ(all[1].of("colla_steps_total"), 12);
  EXPECT_EQ(all[1].of("colla_sent_bytes_total{tcp}"), 150);
  EXPECT_EQ(all[1].sumOf("colla_sent_bytes_total"), 157);
  EXPECT_EQ(all[1].of("colla_step_seconds_bucket"), 0);
  EXPECT_EQ(all[2].of("colla_steps_total"), 11);
}

TEST(CountersTest, FindsThePort) {
  EXPECT_EQ(portIn("colla: metrics at http://127.0.0.1:34285/metrics"), 34285);
  EXPECT_EQ(portIn("[worker 0] 04:16 I rank 0: metrics at http://127.0.0.1:9400/metrics"), 9400);
  EXPECT_EQ(portIn("metrics at http://10.0.0.1:9400/metrics"), 0);
  EXPECT_EQ(portIn("step 3"), 0);
}

}  // namespace
}  // namespace colla::study
