// Brings one file here: from mirrors in turn, going on with what a broken download has left, and
// under its name only once its checksum is right.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::fetch {

struct Wanted {
  std::string path;        // Where the file goes; PATH.part while it is on its way.
  std::int64_t bytes = 0;  // 0: unknown.
  std::string md5;         // Lower-case hexadecimal; empty: unknown.
};

struct DownloadOptions {
  std::chrono::seconds connectLimit{20};
  // A server that sends nothing for so long is given up.
  std::chrono::seconds stallLimit{30};
  int attempts = 3;  // For each address; every one goes on where the one before broke off.
  // Called now and then: bytes there are, and all that there will be (0: unknown). May be empty.
  std::function<void(std::int64_t have, std::int64_t all)> progress = {};
};

// "": the file's checksum and length are as wanted; otherwise what is wrong with it.
std::string mismatch(const std::string& path, const Wanted& wanted);

// Addresses are URLs, or paths of files to copy from. kIo says what each of them answered.
Status download(const Wanted& wanted, const std::vector<std::string>& addresses,
                const DownloadOptions& options);

}  // namespace colla::fetch
