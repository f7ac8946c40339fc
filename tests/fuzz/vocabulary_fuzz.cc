// Vocabularies from bytes of anybody.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "data/text/vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Behind the words that each begins with.
  std::string file = "<pad>\n<s>\n</s>\n<unk>\n";
  file.append(reinterpret_cast<const char*>(data), size);
  const auto vocabulary = colla::data::Vocabulary::parse(std::as_bytes(std::span(file)), "fuzz");
  if (!vocabulary.ok()) {
    if (!vocabulary.status().message().starts_with("fuzz:")) std::abort();
    return 0;
  }
  for (std::int32_t i = 0; i < vocabulary->size(); ++i) {
    if (vocabulary->number(vocabulary->word(i)) != i) std::abort();
  }
  return 0;
}
