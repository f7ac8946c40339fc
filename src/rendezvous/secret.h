// The job's secret: what its processes know and others do not. It travels on an inherited
// descriptor (secret_descriptor.h), in a file or in a variable, never on a command line, and is
// never printed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::rendezvous {

inline constexpr std::size_t kSecretBytes = 32;

// 32 random bytes.
std::string makeSecret();

// As COLLA_SECRET holds it.
std::string secretToHex(const std::string& secret);
// The bytes that so many pairs of hexadecimal digits stand for; nothing if they are not.
std::optional<std::string> bytesFromHex(std::string_view hex);

// From COLLA_SECRET (`hex`, may be null) or else from a file (`path`, may be
// empty; COLLA_SECRET_FILE), whose content it is, less the white space at its end. Empty when
// there is neither. Refuses secrets of less than 32 bytes and files that others than their owner
// can read; no message has any of the content.
Result<std::string> loadSecret(const char* hex, const std::string& path);

}  // namespace colla::rendezvous
