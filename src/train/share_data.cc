#include "train/share_data.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "base/log.h"
#include "colla/collectives.h"
#include "colla/error.h"
#include "data/shared_pages.h"

namespace colla::train {
namespace {

data::Pages pagesOfParts(std::span<const std::shared_ptr<const Dataset>> parts) {
  std::vector<Array> arrays;
  for (const auto& part : parts) {
    if (part == nullptr) continue;
    for (Array& array : part->held()) arrays.push_back(std::move(array));
  }
  return data::pagesOf(arrays);
}

// Pages that could not be put in their place are gone; everything else leaves bytes as they were.
void throwIfLost(const Status& status) {
  if (status.code() == StatusCode::kInternal) throw Error(status);
  if (!status.ok()) log::debug("data is not shared: {}", status.message());
}

// Where the pages that the host's first worker published begin in its memory, and their lengths.
struct Published {
  std::int64_t process = 0;
  std::int64_t fd = -1;
  std::vector<std::int64_t> begins;
  std::vector<std::int64_t> sizes;
};

Published broadcastPublished(Group& host, const data::Pages& pages, int fd) {
  std::vector<std::int64_t> head = {getpid(), fd,
                                    fd < 0 ? 0 : static_cast<std::int64_t>(pages.size())};
  throwIfError(broadcast(host, head, 0));
  Published published{.process = head[0], .fd = head[1], .begins = {}, .sizes = {}};
  published.begins.resize(static_cast<std::size_t>(head[2]));
  published.sizes.resize(published.begins.size());
  if (host.rank() == 0) {
    for (std::size_t i = 0; i < published.sizes.size(); ++i) {
      published.begins[i] = reinterpret_cast<std::intptr_t>(pages[i].data());
      published.sizes[i] = static_cast<std::int64_t>(pages[i].size());
    }
  }
  if (published.sizes.empty()) return published;
  throwIfError(broadcast(host, published.begins, 0));
  throwIfError(broadcast(host, published.sizes, 0));
  return published;
}

// Workers in threads may have the very same data set: its pages are shared already.
Result<std::size_t> adopt(const Published& published, const data::Pages& pages) {
  COLLA_TRY_ASSIGN(const UniqueFd file,
                   data::openPages(fmt::format("/proc/{}/fd/{}", published.process, published.fd)));
  std::size_t shared = 0;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < std::min(pages.size(), published.sizes.size()); ++i) {
    const auto size = static_cast<std::size_t>(published.sizes[i]);
    const bool itself = published.process == getpid() &&
                        published.begins[i] == reinterpret_cast<std::intptr_t>(pages[i].data());
    if (pages[i].size() == size && !itself) {
      COLLA_TRY_ASSIGN(const std::size_t adopted, data::adoptPages(file, offset, pages[i]));
      shared += adopted;
    }
    offset += size;
  }
  return shared;
}

}  // namespace

void shareData(const Workers& workers, std::span<const std::shared_ptr<const Dataset>> parts) {
  if (workers.host == nullptr) return;
  Group& host = *workers.host;
  const data::Pages pages = pagesOfParts(parts);
  UniqueFd file;
  if (host.rank() == 0 && !pages.empty()) {
    auto made = data::publishPages(pages);
    throwIfLost(made.status());
    if (made.ok()) file = *std::move(made);
  }
  const Published published = broadcastPublished(host, pages, file.get());
  if (published.sizes.empty()) return;
  if (host.rank() != 0) {
    const auto shared = adopt(published, pages);
    throwIfLost(shared.status());
    if (shared.ok()) log::debug("{} MiB of data are shared on this host", *shared >> 20);
  }
  throwIfError(barrier(host));  // The file stays open until all have it.
}

}  // namespace colla::train
