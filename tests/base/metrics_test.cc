#include "base/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <thread>

#include "base/metric_families.h"

namespace colla::metrics {
namespace {

using namespace std::chrono_literals;

constexpr const Family& kBytes = family("colla_sent_bytes_total");
constexpr const Family& kWaits = family("colla_wait_seconds_total");
constexpr const Family& kStaleness = family("colla_ps_staleness");
constexpr const Family& kSaves = family("colla_save_seconds");
constexpr const Family& kWorkers = family("colla_ps_workers");

TEST(MetricsTest, CountersWithTheSameLabelsAddUp) {
  Registry registry;
  Counter first(kBytes, {"tcp", "a"}, registry);
  Counter second(kBytes, {"tcp", "a"}, registry);
  Counter elsewhere(kBytes, {"tcp", "b"}, registry);
  first.add(5);
  second.add(7);
  elsewhere.add();

  const auto samples = registry.read();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_THAT(samples[0].labels, testing::ElementsAre("tcp", "a"));
  EXPECT_EQ(samples[0].value(), 12);
  EXPECT_THAT(samples[1].labels, testing::ElementsAre("tcp", "b"));
  EXPECT_EQ(samples[1].value(), 1);
}

TEST(MetricsTest, WhatWasCountedOutlivesTheHandle) {
  Registry registry;
  Counter(kBytes, {"tcp", "a"}, registry).add(5);
  std::vector<Counter> moved;
  moved.emplace_back(kBytes, std::vector<std::string>{"tcp", "a"}, registry);
  moved.emplace_back(kBytes, std::vector<std::string>{"tcp", "a"}, registry);
  moved[0].add(1);
  moved[1].add(2);
  EXPECT_EQ(registry.read().at(0).value(), 8);
  moved.clear();
  EXPECT_EQ(registry.read().at(0).value(), 8);
}

TEST(MetricsTest, AGaugeGoesWithItsHandle) {
  Registry registry;
  std::optional<Gauge> gauge(std::in_place, kWorkers, std::vector<std::string>{}, registry);
  gauge->set(3);
  gauge->set(2);
  EXPECT_EQ(registry.read().at(0).value(), 2);
  gauge.reset();
  EXPECT_TRUE(registry.read().empty());
}

TEST(MetricsTest, SecondsAreReadAsSeconds) {
  Registry registry;
  Counter waited(kWaits, {"rank 1 on host a"}, registry);
  waited.add(1500ms);
  waited.add(-1s);  // Counts nothing.
  EXPECT_DOUBLE_EQ(registry.read().at(0).value(), 1.5);
}

// Each bucket ends where upperBound() says, the bound included.
TEST(MetricsTest, BucketsEndAtTheirBounds) {
  for (const auto& [unit, least] :
       {std::pair(Unit::kSeconds, 1024.0), std::pair(Unit::kCount, 1.0)}) {
    const double scale = unit == Unit::kSeconds ? 1e9 : 1;
    for (std::size_t bucket = 0; bucket + 1 < kBuckets; ++bucket) {
      const auto bound = static_cast<std::uint64_t>(std::llround(upperBound(unit, bucket) * scale));
      EXPECT_EQ(bucketOf(unit, bound), bucket) << bound;
      EXPECT_EQ(bucketOf(unit, bound + 1), bucket + 1) << bound;
    }
    EXPECT_EQ(upperBound(unit, unit == Unit::kSeconds ? 0 : 1) * scale, least);
    EXPECT_EQ(bucketOf(unit, ~std::uint64_t{0}), kBuckets - 1);
    EXPECT_TRUE(std::isinf(upperBound(unit, kBuckets - 1)));
  }
}

TEST(MetricsTest, HistogramsKeepSumAndCount) {
  Registry registry;
  Histogram staleness(kStaleness, {}, registry);
  for (const std::uint64_t value : {0, 1, 3, 3}) staleness.observe(value);
  Histogram saves(kSaves, {}, registry);
  saves.observe(2s);

  const auto samples = registry.read();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].count(), 4u);
  EXPECT_EQ(samples[0].value(), 7);
  EXPECT_EQ(samples[0].values[0], 1u);  // Up to 0,
  EXPECT_EQ(samples[0].values[1], 1u);  // up to 1,
  EXPECT_EQ(samples[0].values[3], 2u);  // and up to 4.
  EXPECT_EQ(samples[1].count(), 1u);
  EXPECT_DOUBLE_EQ(samples[1].value(), 2);
}

// A scrape may come at any time: it sees numbers that only rise, and loses none.
TEST(MetricsTest, ReadsWhileOthersCount) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kAdds = 20'000;
  Registry registry;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t done = 0; done < kAdds; done += 100) {
        Counter counter(kBytes, {"tcp", "a"}, registry);
        for (int n = 0; n < 100; ++n) counter.add();
      }
    });
  }
  double last = 0;
  while (last < kThreads * kAdds) {
    const auto samples = registry.read();
    const double now = samples.empty() ? 0 : samples[0].value();
    ASSERT_GE(now, last);
    last = now;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.read().at(0).value(), kThreads * kAdds);
}

TEST(MetricFamiliesTest, NamesFollowPrometheusConventions) {
  std::set<std::string_view> names;
  for (const Family& family : kFamilies) {
    const std::string name(family.name);
    EXPECT_TRUE(names.insert(family.name).second) << name << " is there twice";
    EXPECT_TRUE(std::regex_match(name, std::regex("colla(_[a-z]+)+"))) << name;
    EXPECT_EQ(name.ends_with("_total"), family.kind == Kind::kCounter) << name;
    for (const Unit unit : {Unit::kSeconds, Unit::kBytes}) {
      EXPECT_EQ(std::regex_search(name, std::regex(fmt::format("_{}(_total)?$", toString(unit)))),
                family.unit == unit)
          << name;
    }
    EXPECT_TRUE(family.help.ends_with('.')) << name;
    for (const std::string_view label : labelNames(family)) {
      EXPECT_FALSE(label == "role" || label == "rank" || label == "host" || label == "le") << name;
    }
  }
}

std::set<std::string> documented() {
  std::set<std::string> rows;
  std::ifstream file(COLLA_SOURCE_DIR "/docs/metrics.md");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `colla_")) rows.insert(line);
  }
  return rows;
}

// Both directions: a metric without a row, and a row without a metric.
TEST(MetricFamiliesTest, DocsListAllOfThem) {
  std::set<std::string> expected;
  for (const Family& family : kFamilies) {
    std::string labels;
    for (const std::string_view label : labelNames(family)) {
      labels += fmt::format("{}`{}`", labels.empty() ? "" : ", ", label);
    }
    expected.insert(fmt::format("| `{}` | {} | {} | {} | {} |", family.name, toString(family.kind),
                                toString(family.unit), labels, family.help));
  }
  EXPECT_EQ(documented(), expected);
}

}  // namespace
}  // namespace colla::metrics
