#include "foreign/keras.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "foreign/hdf5.h"
#include "foreign/zip.h"

namespace colla::foreign {
namespace {

constexpr char kWeightsInArchive[] = "model.weights.h5";

Result<std::vector<DataSet>> dataSetsOf(const std::string& path) {
  if (!path.ends_with(".keras")) return readHdf5(path);
  COLLA_TRY_ASSIGN(auto weights, readZipEntry(path, kWeightsInArchive));
  return readHdf5(path + "/" + kWeightsInArchive, weights);
}

}  // namespace

Result<checkpoint::Listing> openKeras(const std::string& path) {
  COLLA_TRY_ASSIGN(auto found, dataSetsOf(path));
  const auto sets = std::make_shared<std::vector<DataSet>>(std::move(found));
  std::ranges::sort(*sets, {}, &DataSet::name);
  checkpoint::Listing result{.path = path, .tensors = {}, .memory = sets};
  for (const DataSet& set : *sets) {
    result.tensors.push_back(
        {.tensor = {set.name, set.type, set.shape, set.bytes}, .foreignType = set.foreignType});
  }
  return result;
}

}  // namespace colla::foreign
