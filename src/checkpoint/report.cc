#include "checkpoint/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text_table.h"

namespace colla::checkpoint {
namespace {

using nlohmann::json;

// A file can come from anybody, and a terminal obeys control characters.
std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
  return text;
}

std::string absoluteText(const TensorComparison& tensor) {
  if (tensor.differing == 0) return "";
  return tensor.nan ? "nan" : fmt::format("{:.3g}", tensor.largestAbsolute);
}

std::string ulpText(const TensorComparison& tensor) {
  return tensor.nan || !tensor.largestUlp ? "" : fmt::format("{}", *tensor.largestUlp);
}

std::string summaryOf(const Comparison& comparison) {
  const auto count = comparison.tensors.size();
  const auto withBits = static_cast<std::size_t>(
      std::ranges::count(comparison.tensors, Outcome::kEqual, &TensorComparison::outcome));
  if (withBits == count) return fmt::format("equal: all {} tensors have the same bits", count);

  const TensorComparison* worst = nullptr;
  for (const TensorComparison& tensor : comparison.tensors) {
    if (tensor.differing == 0) continue;
    const auto rank = [](const TensorComparison& t) { return std::pair(t.nan, t.largestAbsolute); };
    if (worst == nullptr || rank(tensor) > rank(*worst)) worst = &tensor;
  }
  const std::string farthest = worst == nullptr
                                   ? ""
                                   : fmt::format("; largest difference {} in {}",
                                                 absoluteText(*worst), printable(worst->name));
  if (comparison.equal()) {
    return fmt::format("equal within {}: {} of {} tensors have the same bits{}",
                       *comparison.tolerance, withBits, count, farthest);
  }
  const auto bad = std::ranges::count(comparison.tensors, false, &TensorComparison::equal);
  return fmt::format("different: {} of {} tensors{}", bad, count, farthest);
}

// The first elements that differ, one a line.
std::string valuesText(const Comparison& comparison) {
  std::string text;
  for (const TensorComparison& tensor : comparison.tensors) {
    for (const ElementDifference& element : tensor.values) {
      text +=
          fmt::format("{}{}: {} in A, {} in B\n", printable(tensor.name),
                      element.index.empty() ? "" : toString(element.index), element.a, element.b);
    }
    const std::uint64_t more = tensor.differing - tensor.values.size();
    if (!tensor.values.empty() && more > 0) {
      text += fmt::format("{}: {} more\n", printable(tensor.name), more);
    }
  }
  return text.empty() ? text : "\n" + text;
}

json toJson(const Manifest& manifest) {
  return json::parse(encodeManifest(manifest), nullptr, false);
}

std::string dump(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string table(const Comparison& comparison) {
  std::string text;
  for (const std::string& note : comparison.notes) text += printable(note) + "\n";
  text += fmt::format("A: {}\nB: {}\n\n", comparison.a, comparison.b);
  std::vector<TableRow> rows = {
      {"tensor", "part", "type", "shape", "bits", "first at", "differing", "absolute", "ulp"}};
  for (const TensorComparison& tensor : comparison.tensors) {
    const bool compared = tensor.differing > 0;
    rows.push_back({printable(tensor.name), std::string(toString(tensor.part)), tensor.type,
                    tensor.shape, std::string(toString(tensor.outcome)),
                    compared ? toString(tensor.firstIndex) : "",
                    compared ? fmt::format("{} of {}", tensor.differing, tensor.elements) : "",
                    absoluteText(tensor), ulpText(tensor)});
  }
  return text + aligned(rows, {0, 1, 2, 3, 4, 5}) + valuesText(comparison) + "\n" +
         summaryOf(comparison) + "\n";
}

std::string table(const Inspection& inspection) {
  std::vector<TableRow> rows;
  std::string text;
  if (inspection.manifest) {
    const Manifest& m = *inspection.manifest;
    const auto add = [&rows](std::string name, const auto& value) {
      rows.push_back({std::move(name), printable(fmt::format("{}", value))});
    };
    add("checkpoint", inspection.path);
    add("step", fmt::format("{} (epoch {}, {} samples into it)", m.step, m.epoch, m.samples));
    add("model", m.modelOptions.empty() ? m.model : m.model + " " + m.modelOptions);
    add("optimizer", m.optimizer);
    add("seed", m.seed);
    add("slices", m.slices);
    add("threads", m.threads);
    add("global batch", fmt::format("{}{}", m.globalBatch, m.shuffle ? "" : ", natural order"));
    if (m.bfloat16) add("computed in", "bfloat16");
    if (!m.data.empty()) add("data", m.data);
    add("written by", fmt::format("{} workers, strategy {}", m.workers, m.strategy));
    add("versions", fmt::format("colla {}, torch {}", m.collaVersion, m.torchVersion));
    add("time", m.time);
    for (const auto& [name, value] : m.extra) add(name, value);
    for (const FileEntry& file : m.files)
      add(file.name, fmt::format("{} bytes, CRC32C {:08x}", file.bytes, file.crc));
    text = aligned(rows, {0, 1}) + "\n";
  }
  rows = {{"tensor", "part", "type", "shape", "elements", "norm"}};
  for (const TensorSummary& tensor : inspection.tensors) {
    rows.push_back({printable(tensor.name), std::string(toString(tensor.part)), tensor.type,
                    toString(tensor.shape), fmt::format("{}", tensor.elements),
                    fmt::format("{:.6g}", tensor.norm)});
  }
  return text + aligned(rows, {0, 1, 2, 3}) +
         fmt::format("\n{} parameters in {} tensors\n", inspection.parameters,
                     inspection.tensors.size());
}

std::string toJson(const Comparison& comparison) {
  json tensors = json::array();
  for (const TensorComparison& tensor : comparison.tensors) {
    json row = {{"name", tensor.name},
                {"part", toString(tensor.part)},
                {"type", tensor.type},
                {"shape", tensor.shape},
                {"result", toString(tensor.outcome)},
                {"equal", tensor.equal()},
                {"elements", tensor.elements},
                {"differing", tensor.differing}};
    if (tensor.differing > 0) {
      row["largest_absolute"] = tensor.nan ? json() : json(tensor.largestAbsolute);
      row["largest_ulp"] = tensor.nan || !tensor.largestUlp ? json() : json(*tensor.largestUlp);
      row["nan"] = tensor.nan;
      row["first_index"] = tensor.firstIndex;
      for (const ElementDifference& element : tensor.values) {
        row["values"].push_back({{"index", element.index}, {"a", element.a}, {"b", element.b}});
      }
    }
    tensors.push_back(std::move(row));
  }
  return dump({{"a", comparison.a},
               {"b", comparison.b},
               {"tolerance", comparison.tolerance ? json(*comparison.tolerance) : json()},
               {"notes", comparison.notes},
               {"equal", comparison.equal()},
               {"summary", summaryOf(comparison)},
               {"tensors", tensors}});
}

std::string toJson(const Inspection& inspection) {
  json tensors = json::array();
  for (const TensorSummary& tensor : inspection.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"part", toString(tensor.part)},
                       {"type", tensor.type},
                       {"shape", tensor.shape},
                       {"elements", tensor.elements},
                       {"norm", tensor.norm}});
  }
  return dump({{"path", inspection.path},
               {"manifest", inspection.manifest ? toJson(*inspection.manifest) : json()},
               {"parameters", inspection.parameters},
               {"tensors", tensors}});
}

}  // namespace colla::checkpoint
