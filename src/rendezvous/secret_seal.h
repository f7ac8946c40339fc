// Sends a secret over a channel that others can read: each process makes a key pair, tells the
// public key, and gets texts that nobody else can open.
//
// Whoever can change what the channel carries can put their own public key in a process's place:
// the channel must be one that only the job's launcher writes to.
//
// Thread safety: none; a value.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::rendezvous {

class SealingKey {
 public:
  // X25519, from OpenSSL's random bytes.
  static SealingKey make();

  // 64 hexadecimal digits, for everybody to see.
  const std::string& publicHex() const { return publicHex_; }

  // `text` for the owner of the public key `toHex`, as hexadecimal digits. open() needs the same
  // `context`, such as the job and the rank. kRefused if `toHex` is not a public key.
  Result<std::string> seal(std::string_view text, const std::string& toHex,
                           std::string_view context) const;
  // What the owner of `fromHex` sealed for this key. kRefused if it is anything else.
  Result<std::string> open(std::string_view sealedHex, const std::string& fromHex,
                           std::string_view context) const;

 private:
  using Bytes = std::array<unsigned char, 32>;
  Result<std::string> sharedKey(const std::string& otherHex, std::string_view context) const;

  Bytes private_{};
  std::string publicHex_;
};

}  // namespace colla::rendezvous
