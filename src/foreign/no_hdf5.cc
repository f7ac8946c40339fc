#include <fmt/format.h>

#include "foreign/hdf5.h"

namespace colla::foreign {

Result<std::vector<DataSet>> readHdf5(const std::string& path) {
  return {StatusCode::kUnsupported,
          fmt::format("cannot read {}: this Colla was built without HDF5; install Debian's "
                      "libhdf5-dev and build it again",
                      path)};
}

Result<std::vector<DataSet>> readHdf5(const std::string& path, std::span<std::byte> /*file*/) {
  return readHdf5(path);
}

}  // namespace colla::foreign
