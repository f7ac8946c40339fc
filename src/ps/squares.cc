#include "ps/squares.h"

#include <algorithm>
#include <tuple>

#include "base/bytes.h"

namespace colla::ps {

void Squares::add(const Squares& other) {
  parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end());
}

std::map<int, double> Squares::sums() const {
  std::vector<Part> ordered = parts_;
  std::ranges::sort(ordered, {},
                    [](const Part& part) { return std::tuple(part.entry, part.begin); });
  std::map<int, double> sums;
  for (const Part& part : ordered) sums[static_cast<int>(part.entry)] += part.sum;
  return sums;
}

std::vector<std::byte> Squares::encode() const {
  constexpr std::size_t kPartBytes = 24;
  ByteWriter writer(sizeof(std::uint64_t) + parts_.size() * kPartBytes);
  writer.number(static_cast<std::uint64_t>(parts_.size()));
  for (const Part& part : parts_) {
    writer.number(part.entry);
    writer.number(part.begin);
    writer.number(part.sum);
  }
  return writer.take();
}

Result<Squares> Squares::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Squares squares;
  const auto parts = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < parts && reader.ok(); ++i) {
    Part& part = squares.parts_.emplace_back();
    part.entry = reader.number<std::int64_t>();
    part.begin = reader.number<std::uint64_t>();
    part.sum = reader.number<double>();
  }
  if (!reader.done()) return {StatusCode::kInvalidArgument, "damaged sums of squares"};
  return squares;
}

}  // namespace colla::ps
