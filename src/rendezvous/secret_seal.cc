#include "rendezvous/secret_seal.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <span>

#include "base/check.h"
#include "rendezvous/secret.h"
#include "transport/net/keys.h"

namespace colla::rendezvous {
namespace {

using PrivateKey = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)>;

constexpr std::size_t kNonce = 12;
constexpr std::size_t kTag = 16;

unsigned char* raw(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Status notSealed() {
  return {StatusCode::kRefused, "a sealed text was not made for this process, or was changed"};
}

}  // namespace

SealingKey SealingKey::make() {
  SealingKey key;
  transport::net::fillRandom(std::as_writable_bytes(std::span(key.private_)));
  const PrivateKey pair(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, key.private_.data(),
                                                     key.private_.size()),
                        EVP_PKEY_free);
  std::string open(key.private_.size(), '\0');
  std::size_t size = open.size();
  COLLA_CHECK(pair != nullptr && EVP_PKEY_get_raw_public_key(pair.get(), raw(open), &size) == 1);
  key.publicHex_ = secretToHex(open);
  return key;
}

// Both public keys are part of what the key is made of: a text for one pair opens for no other.
Result<std::string> SealingKey::sharedKey(const std::string& otherHex,
                                          std::string_view context) const {
  const auto other = bytesFromHex(otherHex);
  if (!other || other->size() != private_.size()) {
    return {StatusCode::kRefused, "what should be a process's public key is something else"};
  }
  const PrivateKey mine(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, private_.data(), private_.size()),
      EVP_PKEY_free);
  const PrivateKey theirs(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, raw(*other), other->size()),
      EVP_PKEY_free);
  const std::unique_ptr<EVP_PKEY_CTX, void (*)(EVP_PKEY_CTX*)> exchange(
      EVP_PKEY_CTX_new(mine.get(), nullptr), EVP_PKEY_CTX_free);
  std::string shared(private_.size(), '\0');
  std::size_t size = shared.size();
  if (exchange == nullptr || EVP_PKEY_derive_init(exchange.get()) != 1 ||
      EVP_PKEY_derive_set_peer(exchange.get(), theirs.get()) != 1 ||
      EVP_PKEY_derive(exchange.get(), raw(shared), &size) != 1) {
    return {StatusCode::kRefused, "a process's public key is not a usable one"};
  }
  const std::string& less = std::min(publicHex_, otherHex);
  const std::string& more = std::max(publicHex_, otherHex);
  const auto key = transport::net::deriveKey(shared, context, "colla sealed secret " + less + more);
  return std::string(reinterpret_cast<const char*>(key.data()), key.size());
}

Result<std::string> SealingKey::seal(std::string_view text, const std::string& toHex,
                                     std::string_view context) const {
  COLLA_TRY_ASSIGN(const std::string key, sharedKey(toHex, context));
  std::string sealed(kNonce + text.size() + kTag, '\0');
  transport::net::fillRandom(std::as_writable_bytes(std::span(sealed.data(), kNonce)));
  const Cipher cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  int size = 0;
  COLLA_CHECK(cipher != nullptr &&
              EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, raw(key), raw(sealed)) ==
                  1 &&
              EVP_EncryptUpdate(cipher.get(), raw(sealed) + kNonce, &size, raw(text),
                                static_cast<int>(text.size())) == 1 &&
              EVP_EncryptFinal_ex(cipher.get(), raw(sealed) + kNonce + size, &size) == 1 &&
              EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTag,
                                  raw(sealed) + kNonce + text.size()) == 1);
  return secretToHex(sealed);
}

Result<std::string> SealingKey::open(std::string_view sealedHex, const std::string& fromHex,
                                     std::string_view context) const {
  COLLA_TRY_ASSIGN(const std::string key, sharedKey(fromHex, context));
  auto sealed = bytesFromHex(sealedHex);
  if (!sealed || sealed->size() < kNonce + kTag) return notSealed();
  std::string text(sealed->size() - kNonce - kTag, '\0');
  const Cipher cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  int size = 0;
  const bool genuine =
      cipher != nullptr &&
      EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, raw(key), raw(*sealed)) == 1 &&
      EVP_DecryptUpdate(cipher.get(), raw(text), &size, raw(*sealed) + kNonce,
                        static_cast<int>(text.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTag,
                          raw(*sealed) + kNonce + text.size()) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), raw(text) + size, &size) == 1;
  if (!genuine) return notSealed();
  return text;
}

}  // namespace colla::rendezvous
