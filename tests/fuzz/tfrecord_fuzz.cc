// TFRecord files and the tf.Examples in them, from bytes of anybody. Checksums are put right unless
// the first byte says otherwise, so that what they protect is reached.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/unique_fd.h"
#include "data/record/example.h"
#include "data/record/record_file.h"

namespace {

void repair(std::vector<std::uint8_t>& file) {
  std::size_t begin = 0;
  while (begin + 12 <= file.size()) {
    const auto bytes = std::as_bytes(std::span(file)).subspan(begin);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    const std::uint32_t headerCrc = colla::maskedCrc32c(bytes.first(8));
    std::memcpy(file.data() + begin + 8, &headerCrc, sizeof(headerCrc));
    if (bytes.size() < 16 || length > bytes.size() - 16) return;
    const std::uint32_t crc = colla::maskedCrc32c(bytes.subspan(12, length));
    std::memcpy(file.data() + begin + 12 + length, &crc, sizeof(crc));
    begin += length + 16;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::uint8_t> bytes(data + 1, data + size);
  if (data[0] % 8 > 0) repair(bytes);
  const int memory = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (memory < 0 || ::write(memory, bytes.data(), bytes.size()) < 0) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(memory);
  const colla::UniqueFd closes(memory);
  auto reader = colla::data::RecordReader::open(path);
  if (!reader.ok()) std::abort();
  std::int64_t whole = 0;
  for (auto record = reader->next(); record.ok() && *record; record = reader->next()) ++whole;
  const auto file = colla::data::RecordFile::open(path);
  if (!file.ok()) {
    if (!file.status().message().starts_with(path + ": ")) std::abort();
    return 0;
  }
  std::int64_t wholeByNumber = 0;
  for (std::int64_t i = 0; i < file->size(); ++i) {
    const auto record = file->read(i);
    if (record.ok() && wholeByNumber == i) ++wholeByNumber;
    if (!record.ok()) continue;
    const auto example = colla::data::Example::parse(*record);
    if (!example.ok()) continue;
    const auto* feature = example->find("a");
    if (feature != nullptr && feature->integers.size() > record->size()) std::abort();
  }
  if (whole != wholeByNumber) std::abort();  // Both ways read the same, up to the first damage.
  return 0;
}
