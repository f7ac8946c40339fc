// Of each leaf: how many rows, their numbers, their values; filled up to where the next can begin.
#include "ps/pushed_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace colla::ps {
namespace {

std::size_t bytesOfLeaf(std::size_t count, std::size_t width) {
  constexpr std::size_t kRowAlignment = sizeof(std::int64_t);
  const std::size_t values = count * width * sizeof(float);
  return sizeof(std::uint64_t) + count * sizeof(std::int64_t) +
         (values + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

Status damagedRows() { return {StatusCode::kInvalidArgument, "a damaged gradient of rows"}; }

}  // namespace

void RowsWriter::add(std::size_t leaf, const collective::Rows& rows, std::size_t begin,
                     std::size_t end) {
  if (begin == end) return;
  leaves_[leaf].parts.push_back({&rows, begin, end});
  leaves_[leaf].count += end - begin;
}

bool RowsWriter::empty() const {
  return std::ranges::all_of(leaves_, [](const Leaf& leaf) { return leaf.count == 0; });
}

std::size_t RowsWriter::bytes() const {
  std::size_t bytes = 0;
  for (const Leaf& leaf : leaves_) bytes += bytesOfLeaf(leaf.count, width_);
  return bytes;
}

void RowsWriter::write(std::span<std::byte> out) const {
  for (const Leaf& leaf : leaves_) {
    std::byte* at = out.data();
    const auto put = [&at](const void* from, std::size_t bytes) {
      std::memcpy(at, from, bytes);
      at += bytes;
    };
    const auto count = static_cast<std::uint64_t>(leaf.count);
    put(&count, sizeof(count));
    for (const Part& part : leaf.parts) {
      put(part.rows->rows.data() + part.begin, (part.end - part.begin) * sizeof(std::int64_t));
    }
    for (const Part& part : leaf.parts) {
      put(part.rows->values.data() + part.begin * width_,
          (part.end - part.begin) * width_ * sizeof(float));
    }
    out = out.subspan(bytesOfLeaf(leaf.count, width_));
  }
}

Result<std::vector<PushedRows>> decodeRows(std::span<const std::byte> bytes, int leaves,
                                           std::int64_t rows, std::size_t width) {
  std::vector<PushedRows> all;
  for (int i = 0; i < leaves; ++i) {
    std::uint64_t count = 0;
    if (bytes.size() < sizeof(count)) return damagedRows();
    std::memcpy(&count, bytes.data(), sizeof(count));
    // A row is at least its number: that many could not be there.
    if (count > bytes.size() / (sizeof(std::int64_t) + width * sizeof(float)) ||
        bytesOfLeaf(count, width) > bytes.size()) {
      return damagedRows();
    }
    PushedRows& leaf = all.emplace_back();
    leaf.rows.resize(count);
    const std::byte* const at = bytes.data() + sizeof(count);
    if (count > 0) std::memcpy(leaf.rows.data(), at, count * sizeof(std::int64_t));
    leaf.values = {reinterpret_cast<const float*>(at + count * sizeof(std::int64_t)),
                   count * width};
    for (std::size_t row = 0; row < leaf.rows.size(); ++row) {
      if (leaf.rows[row] < 0 || leaf.rows[row] >= rows) {
        return {StatusCode::kInvalidArgument,
                fmt::format("row {} of a table with {} rows", leaf.rows[row], rows)};
      }
      if (row > 0 && leaf.rows[row] <= leaf.rows[row - 1]) return damagedRows();
    }
    bytes = bytes.subspan(bytesOfLeaf(count, width));
  }
  if (!bytes.empty()) return damagedRows();
  return all;
}

}  // namespace colla::ps
