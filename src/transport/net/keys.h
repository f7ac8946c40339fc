// Keys from the job's secret, proofs of knowing them, and random bytes (all by OpenSSL).
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace colla::transport::net {

using Key = std::array<std::byte, 32>;

// HKDF-SHA256 of the job's secret: another job or another label is another key, and none of them
// tells anything about the secret.
Key deriveKey(std::string_view secret, std::string_view jobId, std::string_view label);

// HMAC-SHA256 over `parts`, each preceded by its length, so that no two lists of parts are alike.
Key authenticate(const Key& key, std::initializer_list<std::span<const std::byte>> parts);

// In a time that does not tell where they differ.
bool equalSecrets(std::span<const std::byte> a, std::span<const std::byte> b);

void fillRandom(std::span<std::byte> out);

}  // namespace colla::transport::net
