#include "observe/metrics_page.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <vector>

#include "base/metric_families.h"

namespace colla::observe {
namespace {

using metrics::Family;
using metrics::Kind;
using metrics::Sample;

std::string escaped(std::string_view text, bool quotes) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '\\' || (quotes && c == '"')) result += '\\';
    result += c;
  }
  return result;
}

std::string label(std::string_view name, std::string_view value) {
  return fmt::format("{}=\"{}\"", name, escaped(value, /*quotes=*/true));
}

std::string textOf(const ProcessLabels& labels) {
  return fmt::format("{},{},{}", label("role", labels.role),
                     label("rank", std::to_string(labels.rank)), label("host", labels.host));
}

std::string headOf(const Family& family) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.name,
                     escaped(family.help, /*quotes=*/false), family.name, toString(family.kind));
}

// Seconds as the shortest decimal that is the same number; everything else is whole.
std::string numberOf(const Sample& sample) {
  return sample.family->unit == metrics::Unit::kSeconds ? fmt::format("{}", sample.value())
                                                        : fmt::format("{:.0f}", sample.value());
}

void append(std::string& page, const Sample& sample, const std::string& process) {
  const Family& family = *sample.family;
  std::string labels = process;
  const auto names = labelNames(family);
  for (std::size_t i = 0; i < names.size(); ++i) {
    labels += fmt::format(",{}", label(names[i], sample.labels[i]));
  }
  if (family.kind != Kind::kHistogram) {
    page += fmt::format("{}{{{}}} {}\n", family.name, labels, numberOf(sample));
    return;
  }
  std::uint64_t below = 0;
  for (std::size_t bucket = 0; bucket < metrics::kBuckets; ++bucket) {
    below += sample.values[bucket];
    const double bound = metrics::upperBound(family.unit, bucket);
    page += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", family.name, labels,
                        std::isinf(bound) ? "+Inf" : fmt::format("{}", bound), below);
  }
  page += fmt::format("{}_sum{{{}}} {}\n", family.name, labels, numberOf(sample));
  page += fmt::format("{}_count{{{}}} {}\n", family.name, labels, below);
}

}  // namespace

std::string metricsPage(const metrics::Registry& registry, const ProcessLabels& labels) {
  const std::string process = textOf(labels);
  std::string page;
  const Family* last = nullptr;
  for (const Sample& sample : registry.read()) {
    if (sample.family != last) page += headOf(*sample.family);
    last = sample.family;
    append(page, sample, process);
  }
  page += kPageEnd;
  return page;
}

std::string upPage(const ProcessLabels& labels, bool up) {
  const Family& family = metrics::family("colla_up");
  return fmt::format("{}{}{{{}}} {}\n{}", headOf(family), family.name, textOf(labels), up ? 1 : 0,
                     kPageEnd);
}

std::string joinedPage(std::span<const std::string> pages) {
  struct Block {
    std::string head;
    std::string samples;
  };
  std::map<std::string, Block, std::less<>> blocks;
  for (std::string_view page : pages) {
    // Blocks begin with "# HELP NAME …" and "# TYPE NAME …".
    Block* block = nullptr;
    while (!page.empty()) {
      const std::string_view line = page.substr(0, page.find('\n'));
      page.remove_prefix(std::min(page.size(), line.size() + 1));
      if (line.starts_with("# HELP ")) {
        const std::string_view rest = line.substr(7);
        block = &blocks[std::string(rest.substr(0, rest.find(' ')))];
        block->head = fmt::format("{}\n", line);
      } else if (block != nullptr && line.starts_with("# TYPE ")) {
        block->head += fmt::format("{}\n", line);
      } else if (block != nullptr && !line.starts_with('#')) {
        block->samples += fmt::format("{}\n", line);
      }
    }
  }
  std::string joined;
  for (const auto& [name, block] : blocks) joined += block.head + block.samples;
  return joined;
}

}  // namespace colla::observe
