// Counters, gauges and histograms: how much a process has moved, waited and saved so far.
//
//   metrics::Counter sent(metrics::family("colla_sent_bytes_total"), {"tcp", "host-b"});  // Once.
//   sent.add(bytes);                                                                      // Often.
//
// Each instrument owns a cell of its own, so add() is a plain load and store that no other thread
// contends for. The registry adds up the cells with the same labels when somebody reads it. What a
// counter or histogram has counted stays in the registry after the instrument is gone; a gauge goes
// with its instrument.
//
// The families stand in one table (base/metric_families.h), as settings do. docs/metrics.md lists
// them for users; a test compares the two.
//
// Thread safety: one thread at a time may use an instrument, so the object that owns it calls it
// under the lock that it holds anyway. A Registry may be used from any thread.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_annotations.h"

namespace colla::metrics {

enum class Kind { kCounter, kGauge, kHistogram };
// Seconds are kept in nanoseconds and read as seconds.
enum class Unit { kCount, kBytes, kSeconds };

struct Family {
  std::string_view name;  // By Prometheus' conventions: colla_THING_UNIT, counters with _total.
  Kind kind;
  Unit unit;
  std::string_view labels;  // Their names, separated by blanks.
  std::string_view help;    // One sentence.
};

std::string_view toString(Kind kind);
std::string_view toString(Unit unit);
std::vector<std::string_view> labelNames(const Family& family);

// Histograms have fixed bounds. Seconds: 1.024 us, and 4 times as much for each next one, up to
// 17 s. Counts: 0, 1, 2, 4, 8, … 2048. The last bucket has no upper bound.
inline constexpr std::size_t kBuckets = 14;
// The upper bound of a bucket, in seconds or as a count; infinity for the last one.
double upperBound(Unit unit, std::size_t bucket);
inline std::size_t bucketOf(Unit unit, std::uint64_t value) {
  if (value == 0) return 0;
  const auto width = unit == Unit::kSeconds
                         ? (static_cast<std::size_t>(std::bit_width((value - 1) >> 10)) + 1) / 2
                         : static_cast<std::size_t>(std::bit_width(value - 1)) + 1;
  return width < kBuckets ? width : kBuckets - 1;
}

// What has been counted under one name and one set of labels: a number, or buckets and, behind
// them, the sum of what was observed.
inline constexpr std::size_t kMostValues = kBuckets + 1;
using Values = std::array<std::uint64_t, kMostValues>;

class Registry;

// The memory of one instrument.
class Cell {
 public:
  // Not an atomic addition: nobody else writes.
  void add(std::size_t index, std::uint64_t amount) {
    set(index, values_[index].load(std::memory_order_relaxed) + amount);
  }
  void set(std::size_t index, std::uint64_t value) {
    values_[index].store(value, std::memory_order_relaxed);
  }
  Values read() const;

 private:
  std::array<std::atomic<std::uint64_t>, kMostValues> values_{};
};

struct Sample {
  const Family* family = nullptr;
  std::vector<std::string> labels;  // Values, in the order of the family's names.
  Values values{};

  // As a user reads it: seconds, bytes or a count. Of a histogram, the sum of what was observed.
  double value() const;
  // Of a histogram: how many were observed.
  std::uint64_t count() const;
};

// All that the instruments which name it have counted. Outlives them.
class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // The one of this process. It is the exception to "no global mutable state": decision 0016.
  static Registry& ofProcess();

  // Every series that was ever counted, sorted by family and labels. Gauges without an instrument
  // are left out.
  std::vector<Sample> read() const COLLA_EXCLUDES(mutex_);

 private:
  friend class Instrument;
  struct Series {
    Values retired{};  // Of instruments that are gone.
    std::vector<const Cell*> cells;
  };
  using Key = std::pair<std::string_view, std::vector<std::string>>;

  void enter(const Family& family, std::vector<std::string> labels, const Cell& cell)
      COLLA_EXCLUDES(mutex_);
  void retire(const Family& family, const std::vector<std::string>& labels, const Cell& cell)
      COLLA_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  std::map<Key, std::pair<const Family*, Series>> series_ COLLA_GUARDED_BY(mutex_);
};

// What Counter, Gauge and Histogram have in common. `family` must outlive the registry.
class Instrument {
 public:
  ~Instrument();
  Instrument(Instrument&&) = default;
  Instrument& operator=(Instrument&&) = delete;

 protected:
  Instrument(const Family& family, Kind kind, std::vector<std::string> labels, Registry& registry);

  std::unique_ptr<Cell> cell_;
  const Family* family_;

 private:
  std::vector<std::string> labels_;
  Registry* registry_;
};

class Counter : public Instrument {
 public:
  explicit Counter(const Family& family, std::vector<std::string> labels = {},
                   Registry& registry = Registry::ofProcess())
      : Instrument(family, Kind::kCounter, std::move(labels), registry) {}

  void add(std::uint64_t amount = 1) { cell_->add(0, amount); }
  // For families in seconds. Clocks that run backwards count nothing.
  void add(std::chrono::nanoseconds time) {
    if (time.count() > 0) add(static_cast<std::uint64_t>(time.count()));
  }
};

class Gauge : public Instrument {
 public:
  explicit Gauge(const Family& family, std::vector<std::string> labels = {},
                 Registry& registry = Registry::ofProcess())
      : Instrument(family, Kind::kGauge, std::move(labels), registry) {}

  void set(std::uint64_t value) { cell_->set(0, value); }
};

class Histogram : public Instrument {
 public:
  explicit Histogram(const Family& family, std::vector<std::string> labels = {},
                     Registry& registry = Registry::ofProcess())
      : Instrument(family, Kind::kHistogram, std::move(labels), registry) {}

  void observe(std::uint64_t value) {
    cell_->add(bucketOf(family_->unit, value), 1);
    cell_->add(kBuckets, value);
  }
  void observe(std::chrono::nanoseconds time) {
    observe(static_cast<std::uint64_t>(time.count() > 0 ? time.count() : 0));
  }
};

}  // namespace colla::metrics
