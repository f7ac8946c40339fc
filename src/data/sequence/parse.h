// Proteins with a label each, from the bytes of a file.
//
// Two formats, told apart by their first letter. One sequence per line, behind its label:
//
//   37<TAB>MSQKQPQSPNQTLISITNDTESSSSVVSNDTTNKGWTGDNSPGIEA___
//
// where labels are whole numbers; or FASTA, whose headers end with the label, behind a "|" or a
// space, a number or a name:
//
//   >sp|P25025|CXCR2_HUMAN|chemokine
//   MEDFNMESDSFEDFWKGEDLSNYSYSSTLPPFLLDAAPCEPESLEINKYFVVIIYALVFL
//
// There empty lines, and lines that begin with ";", are comments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"
#include "data/sequence/sequence_dataset.h"
#include "data/split.h"

namespace colla::data {

struct LabelledSequences {
  explicit LabelledSequences(std::int64_t length) : rows(length) {}
  SequenceRows rows;                // Labelled with places in labels.
  std::vector<std::string> labels;  // Each once, in the order of their appearance.
  bool numbers = true;              // All labels are whole numbers from 0 to kMaxLabel.
};
inline constexpr std::int64_t kMaxLabel = 99'999;

// Adds the sequences of `share` of the file to `sequences`, and the labels of all. kIo, with `name`
// and the line, for an unknown letter, an empty sequence, a wrong label, or a file without any.
Status parseSequences(std::span<const std::byte> file, std::string_view name, Share share,
                      LabelledSequences& sequences);

}  // namespace colla::data
