// Labelled sequences, tab-separated and FASTA, from bytes of anybody.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "data/sequence/letters.h"
#include "data/sequence/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  colla::data::LabelledSequences sequences(16);
  const auto status = colla::data::parseSequences(std::as_bytes(std::span(data, size)), "fuzz",
                                                  colla::data::Share::kAll, sequences);
  if (!status.ok()) {
    if (!status.message().starts_with("fuzz:")) std::abort();
    return 0;
  }
  const auto classes = static_cast<std::int64_t>(sequences.labels.size());
  const auto set = sequences.rows.dataset("fuzz", classes);
  if (!set.ok()) std::abort();
  colla::Random random(0);
  const auto batch = (*set)->read(std::vector<std::int64_t>{(*set)->size() - 1}, random);
  if (!batch.ok()) std::abort();
  for (const std::uint8_t letter : (*batch)[0].as<std::uint8_t>()) {
    if (letter >= colla::data::kLetters) std::abort();
  }
  const std::int64_t label = (*batch)[1].as<std::int64_t>()[0];
  if (label < 0 || label >= classes) std::abort();
  return 0;
}
