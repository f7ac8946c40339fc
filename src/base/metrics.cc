#include "base/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace colla::metrics {
namespace {

constexpr double kNanosecond = 1e-9;

void addTo(Values& sum, const Values& more) {
  std::ranges::transform(sum, more, sum.begin(), std::plus<>());
}

double inUnit(Unit unit, std::uint64_t value) {
  const auto number = static_cast<double>(value);
  return unit == Unit::kSeconds ? number * kNanosecond : number;
}

}  // namespace

std::string_view toString(Kind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"counter", "gauge", "histogram"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view toString(Unit unit) {
  constexpr std::array<std::string_view, 3> kNames = {"count", "bytes", "seconds"};
  return kNames[static_cast<std::size_t>(unit)];
}

std::vector<std::string_view> labelNames(const Family& family) {
  std::vector<std::string_view> names;
  for (std::string_view rest = family.labels; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    names.push_back(name);
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
  }
  return names;
}

double upperBound(Unit unit, std::size_t bucket) {
  if (bucket + 1 >= kBuckets) return std::numeric_limits<double>::infinity();
  const auto power = static_cast<int>(bucket);
  if (unit == Unit::kSeconds) return std::ldexp(kNanosecond, 10 + 2 * power);
  return bucket == 0 ? 0 : std::ldexp(1.0, power - 1);
}

Values Cell::read() const {
  Values values;
  std::ranges::transform(values_, values.begin(), [](const std::atomic<std::uint64_t>& value) {
    return value.load(std::memory_order_relaxed);
  });
  return values;
}

double Sample::value() const {
  return inUnit(family->unit, values[family->kind == Kind::kHistogram ? kBuckets : 0]);
}

std::uint64_t Sample::count() const {
  std::uint64_t count = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) count += values[bucket];
  return count;
}

Registry& Registry::ofProcess() {
  // Never destroyed: objects of static storage may count until the very end.
  static Registry* const registry = new Registry;
  return *registry;
}

void Registry::enter(const Family& family, std::vector<std::string> labels, const Cell& cell) {
  const MutexLock lock(mutex_);
  auto& [known, series] = series_[{family.name, std::move(labels)}];
  known = &family;
  series.cells.push_back(&cell);
}

void Registry::retire(const Family& family, const std::vector<std::string>& labels,
                      const Cell& cell) {
  const MutexLock lock(mutex_);
  Series& series = series_.at({family.name, labels}).second;
  std::erase(series.cells, &cell);
  if (family.kind != Kind::kGauge) addTo(series.retired, cell.read());
}

std::vector<Sample> Registry::read() const {
  const MutexLock lock(mutex_);
  std::vector<Sample> samples;
  for (const auto& [key, entry] : series_) {
    const auto& [family, series] = entry;
    if (family->kind == Kind::kGauge && series.cells.empty()) continue;
    Sample& sample = samples.emplace_back(Sample{family, key.second, series.retired});
    for (const Cell* cell : series.cells) addTo(sample.values, cell->read());
  }
  return samples;
}

Instrument::Instrument(const Family& family, Kind kind, std::vector<std::string> labels,
                       Registry& registry)
    : cell_(std::make_unique<Cell>()),
      family_(&family),
      labels_(std::move(labels)),
      registry_(&registry) {
  COLLA_CHECK(family.kind == kind && labelNames(family).size() == labels_.size());
  registry_->enter(family, labels_, *cell_);
}

Instrument::~Instrument() {
  if (cell_ != nullptr) registry_->retire(*family_, labels_, *cell_);
}

}  // namespace colla::metrics
