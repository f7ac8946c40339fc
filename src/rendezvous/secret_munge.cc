#include "rendezvous/secret_munge.h"

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "base/loaded_library.h"

namespace colla::rendezvous {
namespace {

// From munge.h, whose numbers are part of what libmunge.so.2 promises.
constexpr int kOptionCipher = 0;
constexpr int kOptionUser = 9;
constexpr int kCipherAes256 = 5;
constexpr int kReplayed = 17;

struct LibMunge {
  void* (*create)() = nullptr;
  void (*destroy)(void* context) = nullptr;
  int (*set)(void* context, int option, ...) = nullptr;
  const char* (*contextError)(void* context) = nullptr;
  const char* (*error)(int code) = nullptr;
  int (*encode)(char** credential, void* context, const void* bytes, int size) = nullptr;
  int (*decode)(const char* credential, void* context, void** bytes, int* size, uid_t* user,
                gid_t* group) = nullptr;

  bool loaded() const { return decode != nullptr; }
};

const LibMunge& libMunge() {
  static const LibMunge kLibrary = [] {
    LibMunge munge;
    const LoadedLibrary library("libmunge.so.2");
    const bool all = library.find("munge_ctx_create", munge.create) &&
                     library.find("munge_ctx_destroy", munge.destroy) &&
                     library.find("munge_ctx_set", munge.set) &&
                     library.find("munge_ctx_strerror", munge.contextError) &&
                     library.find("munge_strerror", munge.error) &&
                     library.find("munge_encode", munge.encode) &&
                     library.find("munge_decode", munge.decode);
    return all ? munge : LibMunge();
  }();
  return kLibrary;
}

std::string whyNot(const LibMunge& munge, void* context, int code) {
  const char* const detail = munge.contextError(context);
  return detail != nullptr ? detail : munge.error(code);
}

}  // namespace

Result<std::string> mungeSeal(const std::string& text) {
  const LibMunge& munge = libMunge();
  if (!munge.loaded()) return {StatusCode::kUnsupported, "there is no libmunge.so.2 here"};
  const std::unique_ptr<void, void (*)(void*)> context(munge.create(), munge.destroy);
  if (context == nullptr) return {StatusCode::kNoMemory, "MUNGE has no memory"};
  // The default may be a site's choice of none.
  int code = munge.set(context.get(), kOptionCipher, kCipherAes256);
  if (code == 0) code = munge.set(context.get(), kOptionUser, geteuid());
  char* credential = nullptr;
  if (code == 0) {
    code = munge.encode(&credential, context.get(), text.data(), static_cast<int>(text.size()));
  }
  const std::unique_ptr<char, void (*)(void*)> owned(credential, std::free);
  if (code != 0) {
    return {StatusCode::kUnsupported,
            fmt::format("MUNGE gives no credentials ({})", whyNot(munge, context.get(), code))};
  }
  return std::string(credential);
}

Result<std::string> mungeOpen(const std::string& credential, Replay replay) {
  const LibMunge& munge = libMunge();
  if (!munge.loaded()) return {StatusCode::kUnsupported, "there is no libmunge.so.2 here"};
  const std::unique_ptr<void, void (*)(void*)> context(munge.create(), munge.destroy);
  if (context == nullptr) return {StatusCode::kNoMemory, "MUNGE has no memory"};
  void* bytes = nullptr;
  int size = 0;
  uid_t user = 0;
  gid_t group = 0;
  const int code = munge.decode(credential.c_str(), context.get(), &bytes, &size, &user, &group);
  const std::unique_ptr<void, void (*)(void*)> owned(bytes, std::free);
  // A credential that expired, or that was opened before, is decoded as well as reported.
  if (code != 0 && (code != kReplayed || replay == Replay::kRefused)) {
    return {StatusCode::kRefused, fmt::format("MUNGE does not open a credential ({})",
                                              whyNot(munge, context.get(), code))};
  }
  if (user != geteuid()) {
    return {StatusCode::kRefused, fmt::format("a credential is user {}'s, not ours", user)};
  }
  return std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

}  // namespace colla::rendezvous
