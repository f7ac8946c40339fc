#include "checkpoint/listing.h"

#include <utility>

namespace colla::checkpoint {

Listing listingOf(const Source& source) {
  Listing listing{.path = source.path(), .checkpoint = source.checkpoint(), .tensors = {}};
  for (const Item& item : source.items()) listing.tensors.push_back({item.part, *item.tensor});
  return listing;
}

Listing listingOf(Source&& source) {
  const auto kept = std::make_shared<const Source>(std::move(source));
  Listing listing = listingOf(*kept);
  listing.memory = kept;
  return listing;
}

}  // namespace colla::checkpoint
