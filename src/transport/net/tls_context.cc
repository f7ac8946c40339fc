#include "transport/net/tls_context.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <cstring>
#include <string>

#include "base/check.h"

namespace colla::transport::net {
namespace {

// Sent in the clear; which job it is follows from the key.
constexpr std::string_view kPskIdentity = "colla";
constexpr std::array<unsigned char, 2> kCipher = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr std::size_t kReadBuffer = 64 * 1024;  // A few records for one system call.

}  // namespace

std::string takeTlsError() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "no reason given" : reason;
}

const TlsContext& TlsContext::of(SSL* ssl) {
  return *static_cast<const TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

SSL_SESSION* TlsContext::makeSession(SSL* ssl) const {
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipher.data());
  SSL_SESSION* session = SSL_SESSION_new();
  COLLA_CHECK(cipher != nullptr && session != nullptr);
  COLLA_CHECK(SSL_SESSION_set1_master_key(
                  session, reinterpret_cast<const unsigned char*>(key_.data()), key_.size()) == 1 &&
              SSL_SESSION_set_cipher(session, cipher) == 1 &&
              SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1);
  return session;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::create(std::string_view secret,
                                                             std::string_view jobId,
                                                             std::uint64_t recordsPerKey) {
  std::shared_ptr<TlsContext> made(
      new TlsContext(deriveKey(secret, jobId, "colla tls 1.3 psk"), recordsPerKey));
  SSL_CTX* context = made->context_ = SSL_CTX_new(TLS_method());
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set1_groups_list(context, "X25519") != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1 || SSL_CTX_set_max_early_data(context, 0) != 1) {
    return {StatusCode::kInternal, "this OpenSSL cannot do TLS 1.3: " + takeTlsError()};
  }
  SSL_CTX_set_app_data(context, made.get());
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadBuffer);
  // A server that offers a certificate instead of the key must fail: no authority is trusted.
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);

  SSL_CTX_set_psk_use_session_callback(
      context, [](SSL* ssl, const EVP_MD* digest, const unsigned char** id, std::size_t* idSize,
                  SSL_SESSION** session) {
        // A set digest means a second attempt, after the server wanted another one.
        if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) {
          *session = nullptr;
          return 1;
        }
        *id = reinterpret_cast<const unsigned char*>(kPskIdentity.data());
        *idSize = kPskIdentity.size();
        *session = of(ssl).makeSession(ssl);
        return 1;
      });
  SSL_CTX_set_psk_find_session_callback(context, [](SSL* ssl, const unsigned char* id,
                                                    std::size_t idSize, SSL_SESSION** session) {
    const bool ours = std::string_view(reinterpret_cast<const char*>(id), idSize) == kPskIdentity;
    *session = ours ? of(ssl).makeSession(ssl) : nullptr;
    return 1;  // With no session there is no certificate either: the handshake fails.
  });
  return std::shared_ptr<const TlsContext>(std::move(made));
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
  OPENSSL_cleanse(key_.data(), key_.size());
}

}  // namespace colla::transport::net
