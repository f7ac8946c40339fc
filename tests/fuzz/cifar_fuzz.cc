// CIFAR's binary files, and what gzip has compressed, from bytes of anybody. The first byte chooses
// the set and how much is read at once; the second, how many records there are: pixels that the
// input does not have are its bytes again.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "data/gzip.h"
#include "data/image/cifar.h"

namespace {

// Where this process puts the one file, and removes it at the end.
class Folder {
 public:
  Folder() {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~Folder() {
    for (const char* name : {"/test_batch.bin", "/test.bin"}) ::unlink((path_ + name).c_str());
    ::rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/colla-cifar-fuzz-XXXXXX";
};

void checkCifar(colla::data::Cifar which, std::span<const std::uint8_t> input, std::size_t bytes) {
  using namespace colla;
  static const Folder folder;
  const std::string path =
      folder.path() + (which == data::Cifar::k10 ? "/test_batch.bin" : "/test.bin");
  std::string file;
  for (std::size_t i = 0; i < bytes; ++i) {
    file += input.empty() ? '\0' : static_cast<char>(input[i % input.size()]);
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << file;
  const auto set = data::openCifar(which, folder.path(), Part::kTest);
  if (!set.ok()) {
    if (set.status().message().find(path) == std::string_view::npos) std::abort();
    return;
  }
  if ((*set)->size() < 1) std::abort();
}

// However it is cut, it gives the same, or the same error.
struct Read {
  std::string bytes;
  bool ok = true;
};
Read readGzip(std::span<const std::byte> input, std::size_t most) {
  constexpr std::size_t kEnough = 1 << 16;
  colla::data::GzipReader reader(input);
  Read read;
  std::vector<std::byte> part(most);
  while (read.bytes.size() < kEnough) {
    const auto count = reader.read(part);
    if (!count.ok()) {
      read.ok = false;
      break;
    }
    if (*count > part.size()) std::abort();
    read.bytes.append(reinterpret_cast<const char*>(part.data()), *count);
    if (*count < part.size()) break;
  }
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::span input(data + 2, size - 2);
  const bool ten = data[0] % 2 == 0;
  const std::size_t record = ten ? 3073 : 3074;
  // Now and then the file is no whole number of records.
  const std::size_t bytes = record * (data[1] % 4) + (data[0] % 16 == 0 ? input.size() : 0);
  if (data[0] % 8 < 2) {
    checkCifar(ten ? colla::data::Cifar::k10 : colla::data::Cifar::k100, input, bytes);
    return 0;
  }
  std::vector<std::byte> file(input.size());
  std::transform(input.begin(), input.end(), file.begin(), [](auto b) { return std::byte{b}; });
  if (data[0] % 8 < 6 && file.size() >= 2) {  // Say that it is compressed.
    file[0] = std::byte{0x1f};
    file[1] = std::byte{0x8b};
  }
  const Read all = readGzip(file, 1 << 16);
  const Read parts = readGzip(file, data[1] % 32 + 1);
  if (all.ok && parts.ok && all.bytes.size() < (1 << 16) && all.bytes != parts.bytes) std::abort();
  return 0;
}
