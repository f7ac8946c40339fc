#include "checkpoint/export.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "checkpoint/file.h"
#include "checkpoint/safetensors.h"

namespace colla::checkpoint {

Result<Exported> exportModel(const Loaded& loaded, const std::string& path) {
  const std::filesystem::path target(path);
  const std::string directory = target.has_parent_path() ? target.parent_path().string() : ".";
  const std::string name = fmt::format(".{}.{}", target.filename().string(), getpid());
  const std::string aside = fmt::format("{}/{}", directory, name);

  const Metadata metadata = {{"format", "pt"}};  // What PyTorch's own files say.
  auto header = encodeHeader(loaded.model(), metadata);
  if (!header.ok()) return header.status().withContext(path);
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(header->bytes))};
  for (const std::size_t index : header->order) pieces.push_back(loaded.model()[index].bytes);

  const auto written = writeFile(directory, name, pieces);
  if (written.ok() && std::rename(aside.c_str(), path.c_str()) == 0) {
    Exported exported{.parameters = 0, .buffers = 0, .bytes = written->bytes};
    for (const TensorView& tensor : loaded.model()) {
      ++(loaded.isBuffer(tensor.name) ? exported.buffers : exported.parameters);
    }
    return exported;
  }
  const Status status = written.ok() ? ioError("write", path) : written.status();
  std::remove(aside.c_str());
  return status;
}

}  // namespace colla::checkpoint
