// The public data sets that `colla data get` brings: where their files lie, how long they are, and
// their published checksums.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colla::fetch {

struct PublishedFile {
  std::string_view name;
  std::int64_t bytes;    // 0: not published.
  std::string_view md5;  // As the publisher gives it, in lower-case hexadecimal.
};

struct PublishedSet {
  std::string_view name;     // As the command takes it.
  std::string_view summary;  // A phrase.
  std::string_view open;     // What --data takes behind the folder's name: "mnist:".
  std::vector<PublishedFile> files;
  // Addresses of folders, tried in order.
  std::vector<std::string_view> mirrors;
  bool tested;              // The addresses were tried when this table was written.
  std::string_view byHand;  // What to do where a person has to fetch it; then there are no files.
};

std::span<const PublishedSet> publishedSets();
// Null if there is none.
const PublishedSet* findSet(std::string_view name);

}  // namespace colla::fetch
