// libsvm files from bytes of anybody.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "data/sparse/libsvm.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  colla::data::LibsvmSamples samples;
  const auto status = colla::data::parseLibsvm(std::as_bytes(std::span(data, size)), "fuzz",
                                               colla::data::Share::kAll, samples);
  if (!status.ok()) {
    if (!status.message().starts_with("fuzz:")) std::abort();
    return 0;
  }
  const auto& rows = samples.rows;
  if (rows.size() == 0 || rows.begins.size() != rows.labels.size() + 1 ||
      rows.features.size() != rows.values.size()) {
    std::abort();
  }
  for (const std::int32_t feature : rows.features) {
    if (feature < 0 || feature >= samples.features) std::abort();
  }
  return 0;
}
