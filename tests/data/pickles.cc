#include "data/pickles.h"

#include <cstdint>
#include <cstring>

namespace colla::data {
namespace {

std::string word(std::uint32_t value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

std::string number(int value) {
  std::string bytes("J");
  return bytes += word(static_cast<std::uint32_t>(value));
}

}  // namespace

std::string pickledText(std::string_view text) {
  std::string bytes;
  if (text.size() < 256) {
    bytes += 'U';
    bytes += static_cast<char>(text.size());
  } else {
    bytes += 'T';
    bytes += word(static_cast<std::uint32_t>(text.size()));
  }
  return bytes += text;
}

std::string pickledArray(int rows, int columns, std::string_view bytes, std::string_view type) {
  using namespace std::string_literals;
  std::string array = "cnumpy.core.multiarray\n_reconstruct\nq\x02"s;
  array += "cnumpy\nndarray\nq\x03K\x00\x85U\x01"s;
  array += "b\x87R(K\x01"s;
  array += number(rows);
  array += number(columns);
  array += '\x86';
  array += "cnumpy\ndtype\n";
  array += pickledText(type);
  array += "K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"s;
  array += pickledText(bytes);
  return array += "tb";
}

std::string pickledList(const std::vector<int>& numbers) {
  std::string list = "](";
  for (const int value : numbers) list += number(value);
  return list += "e";
}

std::string pickleOf(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string file = "\x80\x02}q\x01(";
  for (const auto& [key, value] : items) {
    file += pickledText(key);
    file += value;
  }
  return file += "u.";
}

}  // namespace colla::data
