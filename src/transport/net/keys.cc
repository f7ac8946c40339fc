#include "transport/net/keys.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"

namespace colla::transport::net {
namespace {

// OpenSSL takes its inputs as non-const pointers in parameter lists, and does not write to them.
OSSL_PARAM octets(const char* name, std::string_view value) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(value.data()), value.size());
}
OSSL_PARAM text(const char* name, std::string& value) {
  return OSSL_PARAM_construct_utf8_string(name, value.data(), 0);
}

}  // namespace

Key deriveKey(std::string_view secret, std::string_view jobId, std::string_view label) {
  COLLA_CHECK(!secret.empty());
  const std::unique_ptr<EVP_KDF, void (*)(EVP_KDF*)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr),
                                                         EVP_KDF_free);
  COLLA_CHECK(kdf != nullptr);
  const std::unique_ptr<EVP_KDF_CTX, void (*)(EVP_KDF_CTX*)> context(EVP_KDF_CTX_new(kdf.get()),
                                                                     EVP_KDF_CTX_free);
  std::string digest = "SHA256";
  const OSSL_PARAM params[] = {
      text(OSSL_KDF_PARAM_DIGEST, digest), octets(OSSL_KDF_PARAM_KEY, secret),
      octets(OSSL_KDF_PARAM_SALT, jobId), octets(OSSL_KDF_PARAM_INFO, label), OSSL_PARAM_END};
  Key key;
  COLLA_CHECK(context != nullptr &&
              EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(key.data()),
                             key.size(), params) > 0);
  return key;
}

Key authenticate(const Key& key, std::initializer_list<std::span<const std::byte>> parts) {
  const std::unique_ptr<EVP_MAC, void (*)(EVP_MAC*)> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr),
                                                         EVP_MAC_free);
  COLLA_CHECK(mac != nullptr);
  const std::unique_ptr<EVP_MAC_CTX, void (*)(EVP_MAC_CTX*)> context(EVP_MAC_CTX_new(mac.get()),
                                                                     EVP_MAC_CTX_free);
  std::string digest = "SHA256";
  const OSSL_PARAM params[] = {text(OSSL_MAC_PARAM_DIGEST, digest), OSSL_PARAM_END};
  bool fine = context != nullptr &&
              EVP_MAC_init(context.get(), reinterpret_cast<const unsigned char*>(key.data()),
                           key.size(), params) == 1;
  for (const auto part : parts) {
    const std::uint64_t size = part.size();
    fine = fine &&
           EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(&size),
                          sizeof(size)) == 1 &&
           EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(part.data()),
                          part.size()) == 1;
  }
  Key proof;
  std::size_t written = 0;
  fine = fine && EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(proof.data()),
                               &written, proof.size()) == 1;
  COLLA_CHECK(fine && written == proof.size());
  return proof;
}

bool equalSecrets(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fillRandom(std::span<std::byte> out) {
  COLLA_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) == 1);
}

}  // namespace colla::transport::net
