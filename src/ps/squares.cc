#include "ps/squares.h"

#include <algorithm>
#include <tuple>

#include "ps/byte_reader.h"

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
  ByteWriter writer;
  writer.putAll(std::span<const Part>(parts_));
  return writer.take();
}

Result<Squares> Squares::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Squares squares;
  squares.parts_ = reader.getAll<Part>();
  if (!reader.done()) return {StatusCode::kInvalidArgument, "damaged sums of squares"};
  return squares;
}

}  // namespace colla::ps
