// Text in files, for language models.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "colla/dataset.h"
#include "colla/status.h"
#include "data/text/vocabulary.h"

namespace colla::data {

// Whether `folder` has .txt files with "train" or "test" in their names.
bool looksLikeText(const std::string& folder);

// `part` of the text in `path`: a folder with such files, or one file alone, of which the lines
// that begin in the last tenth are for the test; kNotFound where these are shorter than a sample.
// Words are those of forEachWord(); each line that has some ends with </s>. They are numbered by
// the file that `options` name, else by vocab.txt in the same folder. Samples are those of
// textDataset().
Result<std::shared_ptr<const Dataset>> openText(const std::string& path, Part part,
                                                const ReadOptions& options);

// Adds the words of `path` (all files of the training part, for a folder) to `counter`. `progress`
// is called now and then with the bytes read and those there are; it may be empty.
using TextProgress = std::function<void(std::int64_t done, std::int64_t all)>;
Status countWords(const std::string& path, WordCounter& counter, const TextProgress& progress);

}  // namespace colla::data
