#include "data/files.h"

#include <zlib.h>

#include <stdexcept>

namespace colla::data {

std::string idx(std::initializer_list<std::uint32_t> shape, std::string_view elements) {
  std::string file{0, 0, 8, static_cast<char>(shape.size())};
  for (const std::uint32_t length : shape) {
    for (const int shift : {24, 16, 8, 0}) file += static_cast<char>(length >> shift);
  }
  file += elements;
  return file;
}

std::string gzip(std::string_view plain) {
  std::string result(plain.size() + plain.size() / 100 + 100, '\0');
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  const int outcome = deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  if (outcome != Z_STREAM_END) throw std::runtime_error("deflate");
  return result;
}

}  // namespace colla::data
