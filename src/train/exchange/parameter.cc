#include "train/exchange/parameter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "colla/collectives.h"
#include "colla/error.h"
#include "train/tensors.h"

namespace colla::train {

void broadcastTensors(Group& group, std::span<const Parameter> tensors) {
  if (group.size() == 1) return;
  // Small ones travel together: all workers meet for every broadcast.
  constexpr std::size_t kSmall = std::size_t{64} << 10;
  std::vector<Buffer> small;
  std::vector<std::uint8_t> together;
  for (const Parameter& tensor : tensors) {
    const Buffer memory = memoryOf(tensor.tensor, tensor.name);
    if (memory.bytes().size() > kSmall) {
      throwIfError(broadcast(group, memory, 0));
      continue;
    }
    small.push_back(memory);
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(memory.data());
    together.insert(together.end(), bytes, bytes + memory.bytes().size());
  }
  if (!together.empty()) throwIfError(broadcast(group, together, 0));
  if (group.rank() == 0) return;
  for (std::span<const std::byte> rest = std::as_bytes(std::span(together));
       const Buffer& memory : small) {
    std::ranges::copy(rest.first(memory.bytes().size()), memory.data());
    rest = rest.subspan(memory.bytes().size());
  }
}

}  // namespace colla::train
