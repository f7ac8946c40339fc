#include "foreign/open.h"

#include <filesystem>
#include <utility>

#include "checkpoint/source.h"
#include "foreign/bundle.h"
#include "foreign/keras.h"

namespace colla::foreign {

Result<checkpoint::Listing> open(const std::string& text) {
  std::error_code error;
  const bool isFile = std::filesystem::is_regular_file(text, error);
  if (isFile && (text.ends_with(".h5") || text.ends_with(".hdf5") || text.ends_with(".keras"))) {
    return openKeras(text);
  }
  if (const auto prefix = bundlePrefix(text)) return openBundle(*prefix);
  auto source = checkpoint::Source::open(text);
  if (!source.ok()) return source.status();
  return listingOf(*std::move(source));
}

}  // namespace colla::foreign
