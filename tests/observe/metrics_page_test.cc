#include "observe/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "base/metric_families.h"
#include "base/unique_fd.h"
#include "observe/metrics_socket.h"

namespace colla::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const metrics::Family& kSent = metrics::family("colla_sent_messages_total");
constexpr const metrics::Family& kWorkers = metrics::family("colla_ps_workers");

TEST(MetricsPageTest, EscapesWhatLabelsMayHold) {
  metrics::Registry registry;
  metrics::Counter counter(kSent, {"tcp", "a \"b\" \\ c\nd"}, registry);
  counter.add(3);
  EXPECT_EQ(metricsPage(registry, {"worker", 1, "h"}),
            "# HELP colla_sent_messages_total Messages sent.\n"
            "# TYPE colla_sent_messages_total counter\n"
            "colla_sent_messages_total{role=\"worker\",rank=\"1\",host=\"h\",transport=\"tcp\","
            "peer_host=\"a \\\"b\\\" \\\\ c\\nd\"} 3\n"
            "# EOF\n");
}

TEST(MetricsPageTest, WholeNumbersStayWhole) {
  metrics::Registry registry;
  metrics::Counter counter(kSent, {"tcp", "a"}, registry);
  counter.add((std::uint64_t{1} << 53) - 1);
  EXPECT_THAT(metricsPage(registry, {}), HasSubstr("} 9007199254740991\n"));
}

TEST(MetricsPageTest, JoinsFamilies) {
  metrics::Registry registry;
  metrics::Counter counter(kSent, {"tcp", "a"}, registry);
  metrics::Gauge gauge(kWorkers, {}, registry);
  const std::vector<std::string> pages = {upPage({"worker", 0, "h"}, true),
                                          metricsPage(registry, {"worker", 0, "h"}),
                                          upPage({"ps", 0, "h"}, false)};
  const std::string joined = joinedPage(pages);
  EXPECT_THAT(joined, Not(HasSubstr("# EOF")));
  EXPECT_THAT(joined, HasSubstr("# TYPE colla_up gauge\n"
                                "colla_up{role=\"worker\",rank=\"0\",host=\"h\"} 1\n"
                                "colla_up{role=\"ps\",rank=\"0\",host=\"h\"} 0\n"));
  EXPECT_EQ(std::ranges::count(joined, '\n'), 3 * 2 + 4);  // Three heads and four samples.
}

class MetricsSocketTest : public ::testing::Test {
 protected:
  MetricsSource source(int rank) const {
    const ProcessLabels labels{"worker", rank, "h"};
    return {labels, metricsSocketName("socket-test-" + std::to_string(getpid()), labels)};
  }
};

TEST_F(MetricsSocketTest, CollectsFromThoseThatAnswer) {
  const auto serve = [&](int rank, std::string page) {
    return MetricsSocket::serve(source(rank).socket, [page = std::move(page)] { return page; });
  };
  const std::string large =
      "# HELP colla_x A.\n# TYPE colla_x counter\n" + std::string(1 << 20, ' ') + "\n# EOF\n";
  const auto whole = serve(0, large);
  const auto torn = serve(1, "# HELP colla_x A.\n# TYPE colla_x counter\ncolla_x 1\n");
  ASSERT_TRUE(whole.ok() && torn.ok());
  EXPECT_FALSE(serve(0, "").ok());  // The name is taken.

  const std::vector<MetricsSource> sources = {source(0), source(1), source(2)};
  for (int round = 0; round < 3; ++round) {
    const auto pages = collectPages(sources, Deadline::after(20s));
    ASSERT_EQ(pages.size(), 4u);
    EXPECT_THAT(pages[0], HasSubstr("rank=\"0\",host=\"h\"} 1\n"));
    EXPECT_EQ(pages[1], large);
    EXPECT_THAT(pages[2], HasSubstr("rank=\"1\",host=\"h\"} 0\n"));
    EXPECT_THAT(pages[3], HasSubstr("rank=\"2\",host=\"h\"} 0\n"));
  }
}

// A process that is stopped: the kernel accepts for it, and nothing comes.
TEST_F(MetricsSocketTest, DoesNotWaitBeyondTheDeadline) {
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = source(0).socket;
  std::ranges::copy(name, address.sun_path + 1);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const auto began = std::chrono::steady_clock::now();
  const std::vector<MetricsSource> sources = {source(0)};
  const auto pages = collectPages(sources, Deadline::after(50ms));
  EXPECT_GE(std::chrono::steady_clock::now() - began, 50ms);
  ASSERT_EQ(pages.size(), 1u);
  EXPECT_THAT(pages[0], HasSubstr("} 0\n"));
}

}  // namespace
}  // namespace colla::observe
