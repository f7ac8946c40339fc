// Labelled proteins in files.
#pragma once

#include <memory>
#include <string>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

// Whether `folder` has sequence files (.tsv, .fasta, .fa, .faa) with "train" or "test" in their
// names.
bool looksLikeProteins(const std::string& folder);

// `part` of the proteins in `path`: a folder with such files, or one file alone, of which every
// fifth sequence is for the test. Formats are those of sequence/parse.h. Field sequence is uint8
// (sequence/letters.h), cut or padded to options.length, by default 1000; field label is the class:
// the number of the label, or its place among all labels, sorted, where some are names. Both parts
// are looked through, so that they agree on the classes.
Result<std::shared_ptr<const Dataset>> openProteins(const std::string& path, Part part,
                                                    const ReadOptions& options);

}  // namespace colla::data
