#include "fetch/download.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/version.h"

namespace colla::fetch {
namespace {

namespace fs = std::filesystem;

// What a transfer has to say of itself when it ends.
enum class Outcome {
  kDone,
  kBroken,   // Another attempt may go on.
  kUseless,  // This address has nothing for us.
};

struct Transfer {
  std::FILE* file = nullptr;
  CURL* curl = nullptr;
  std::int64_t begin = 0;  // What was there before.
  std::int64_t have = 0;
  std::int64_t limit = 0;  // The file's length; 0: unknown.
  bool tooLong = false;
  bool full = false;  // The disk is.
  bool checked = false;
  const DownloadOptions* options = nullptr;
};

// A server that knows nothing of ranges sends all of the file from its beginning.
bool beginAnew(Transfer& transfer) {
  transfer.checked = true;
  long code = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &code);
  if (transfer.begin == 0 || code == 206) return true;
  transfer.begin = transfer.have = 0;
  std::rewind(transfer.file);
  return ftruncate(fileno(transfer.file), 0) == 0;
}

std::size_t take(char* bytes, std::size_t size, std::size_t count, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  if (!transfer.checked && !beginAnew(transfer)) return 0;
  const std::size_t length = size * count;
  if (transfer.limit > 0 && transfer.have + static_cast<std::int64_t>(length) > transfer.limit) {
    transfer.tooLong = true;
    return 0;  // Ends the transfer.
  }
  if (std::fwrite(bytes, 1, length, transfer.file) != length) {
    transfer.full = true;
    return 0;
  }
  transfer.have += static_cast<std::int64_t>(length);
  if (transfer.options->progress) transfer.options->progress(transfer.have, transfer.limit);
  return length;
}

struct Attempt {
  Outcome outcome = Outcome::kUseless;
  std::string said;
};

Attempt attempt(const std::string& address, const std::string& part, const Wanted& wanted,
                const DownloadOptions& options) {
  std::error_code error;
  Transfer transfer;
  transfer.options = &options;
  transfer.limit = wanted.bytes;
  transfer.begin =
      fs::exists(part, error) ? static_cast<std::int64_t>(fs::file_size(part, error)) : 0;
  // More than there should be is of a different file; all of it means that nothing is left to
  // fetch.
  if (wanted.bytes > 0 && transfer.begin > wanted.bytes) {
    fs::remove(part, error);
    transfer.begin = 0;
  }
  if (wanted.bytes > 0 && transfer.begin == wanted.bytes) return {Outcome::kDone, ""};
  transfer.have = transfer.begin;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(part.c_str(), "ab"),
                                                             std::fclose);
  if (file == nullptr)
    return {Outcome::kUseless, fmt::format("{}: {}", part, std::strerror(errno))};
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) return {Outcome::kUseless, "libcurl does not start"};
  transfer.file = file.get();
  transfer.curl = curl.get();
  std::array<char, CURL_ERROR_SIZE> message{};
  const std::string agent = fmt::format("colla/{}", version());
  curl_easy_setopt(curl.get(), CURLOPT_URL, address.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, agent.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT,
                   static_cast<long>(options.connectLimit.count()));
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME,
                   static_cast<long>(options.stallLimit.count()));
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, message.data());
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &take);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &transfer);
  // Not CURLOPT_RESUME_FROM: that is an error where a server knows nothing of ranges.
  const std::string range = fmt::format("{}-", transfer.begin);
  if (transfer.begin > 0) curl_easy_setopt(curl.get(), CURLOPT_RANGE, range.c_str());
  const CURLcode code = curl_easy_perform(curl.get());
  if (std::fflush(file.get()) != 0) transfer.full = true;
  if (transfer.full) {
    return {Outcome::kUseless, fmt::format("cannot write {}: is the disk full?", part)};
  }
  if (transfer.tooLong) {
    fs::remove(part, error);
    return {Outcome::kUseless,
            fmt::format("it sends more than the {} bytes that the file has", wanted.bytes)};
  }
  const std::string said = message[0] != '\0' ? message.data() : curl_easy_strerror(code);
  if (code == CURLE_OK) {
    if (wanted.bytes > 0 && transfer.have < wanted.bytes) {
      return {Outcome::kBroken,
              fmt::format("it ended after {} of {} bytes", transfer.have, wanted.bytes)};
    }
    return {Outcome::kDone, ""};
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  // The server is sure that this file, or the rest of it, is not there.
  if (status == 416) fs::remove(part, error);
  const bool final =
      status >= 400 && status < 500 && status != 408 && status != 416 && status != 429;
  const bool useless = final || code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
                       code == CURLE_COULDNT_RESOLVE_HOST;
  return {useless ? Outcome::kUseless : Outcome::kBroken, said};
}

Attempt copyFrom(const std::string& place, const std::string& part) {
  std::error_code error;
  if (!fs::copy_file(place, part, fs::copy_options::overwrite_existing, error) || error) {
    return {Outcome::kUseless, error.message()};
  }
  return {Outcome::kDone, ""};
}

std::string md5Of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  if (!file || context == nullptr || EVP_DigestInit_ex(context.get(), EVP_md5(), nullptr) != 1)
    return "";
  std::array<char, 1 << 16> buffer;
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &length);
  std::string text;
  for (unsigned int i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace

std::string mismatch(const std::string& path, const Wanted& wanted) {
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path, error));
  if (error) return error.message();
  if (wanted.bytes > 0 && bytes != wanted.bytes) {
    return fmt::format("it has {} bytes, not {}", bytes, wanted.bytes);
  }
  if (wanted.md5.empty()) return "";
  const std::string md5 = md5Of(path);
  return md5 == wanted.md5 ? "" : fmt::format("its MD5 is {}, not {}", md5, wanted.md5);
}

Status download(const Wanted& wanted, const std::vector<std::string>& addresses,
                const DownloadOptions& options) {
  const std::string part = wanted.path + ".part";
  std::vector<std::string> complaints;
  std::error_code error;
  for (const std::string& address : addresses) {
    const bool remote = address.find("://") != std::string::npos;
    Attempt last;
    for (int i = 0; i < (remote ? options.attempts : 1); ++i) {
      last = remote ? attempt(address, part, wanted, options) : copyFrom(address, part);
      if (last.outcome != Outcome::kBroken) break;
    }
    if (last.outcome == Outcome::kDone) {
      last.said = mismatch(part, wanted);
      if (last.said.empty()) {
        fs::rename(part, wanted.path, error);
        if (!error) return {};
        return {StatusCode::kIo, fmt::format("cannot write {}: {}", wanted.path, error.message())};
      }
      fs::remove(part, error);  // Nothing of it can be trusted.
    }
    complaints.push_back(fmt::format("{}: {}", address, last.said));
  }
  return {StatusCode::kIo,
          fmt::format("{} could not be fetched: {}", fs::path(wanted.path).filename().string(),
                      fmt::join(complaints, "; "))};
}

}  // namespace colla::fetch
