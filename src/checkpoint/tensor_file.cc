#include "checkpoint/tensor_file.h"

#include <algorithm>
#include <utility>

namespace colla::checkpoint {

Result<TensorFile> TensorFile::open(const std::string& path) {
  COLLA_TRY_ASSIGN(MappedFile mapped, MappedFile::open(path));
  TensorFile file(path, std::move(mapped));
  const auto bytes = file.file_.bytes();
  auto parsed = parseHeader(bytes, bytes.size());
  if (!parsed.ok()) return parsed.status().withContext(path);

  Header header = *std::move(parsed);
  const auto data = bytes.subspan(header.dataBegin);
  for (TensorPlace& tensor : header.tensors) {
    file.tensors_.push_back({std::move(tensor.name), tensor.type, std::move(tensor.shape),
                             data.subspan(tensor.begin, tensor.end - tensor.begin)});
  }
  std::ranges::sort(file.tensors_, {}, &TensorView::name);
  return file;
}

Result<FileEntry> writeTensorFile(const std::string& directory, const std::string& name,
                                  std::span<const TensorView> tensors) {
  auto header = encodeHeader(tensors);
  if (!header.ok()) return header.status().withContext(directory + "/" + name);
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(header->bytes))};
  for (const std::size_t index : header->order) pieces.push_back(tensors[index].bytes);
  return writeFile(directory, name, pieces);
}

}  // namespace colla::checkpoint
