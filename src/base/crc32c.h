// CRC-32C (Castagnoli), the checksum of checkpoints, records and event files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace colla {

// The checksum of `data`, or of what `crc` covers followed by `data`.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc = 0);

// crc32c(data), rotated and shifted, as TFRecord and TensorBoard's files have it: checksums of data
// that holds checksums stay good.
std::uint32_t maskedCrc32c(std::span<const std::byte> data);

}  // namespace colla
