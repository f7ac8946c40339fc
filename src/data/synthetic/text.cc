#include <utility>
#include <vector>

#include "data/synthetic/log_uniform.h"
#include "data/synthetic/streams.h"
#include "data/synthetic/synthetic.h"
#include "data/text/text_dataset.h"
#include "data/text/words.h"

namespace colla::data {
namespace {

// Words that like to follow each word.
constexpr std::uint64_t kFollowers = 3;

class Language {
 public:
  Language(std::int64_t vocabulary, std::uint64_t seed)
      : words_(vocabulary - kFirstWord), seed_(seed) {}

  // Three times out of four one of the word's followers, the first of them as often as the other
  // two together; else any word.
  std::int32_t wordAfter(std::int32_t word, Random& random) const {
    const std::uint64_t dice = random.below(16);
    if (dice >= 12) return anyWord(random);
    Random follower(seed_, kHidden, word * kFollowers + (dice < 6 ? 0 : dice < 9 ? 1 : 2));
    return anyWord(follower);
  }

 private:
  std::int32_t anyWord(Random& random) const {
    return kFirstWord + static_cast<std::int32_t>(logUniform(words_, random));
  }

  std::uint64_t words_;
  std::uint64_t seed_;
};

}  // namespace

Result<std::shared_ptr<const Dataset>> syntheticText(std::int64_t words, std::int64_t vocabulary,
                                                     Part part, std::uint64_t seed,
                                                     const ReadOptions& options) {
  const Language language(vocabulary, seed);
  std::vector<std::int32_t> text;
  text.reserve(words);
  const auto wanted = static_cast<std::size_t>(words);
  for (std::uint64_t sentence = 0; text.size() < wanted; ++sentence) {
    Random random(seed, streamOf(part), sentence);
    std::int32_t word = kSentenceEnd;
    for (std::uint64_t left = 5 + random.below(20); left > 0 && text.size() < wanted; --left) {
      word = language.wordAfter(word, random);
      text.push_back(word);
    }
    if (text.size() < wanted) text.push_back(kSentenceEnd);
  }
  return textDataset(syntheticTitle("text", part), std::move(text), vocabulary, options.length);
}

}  // namespace colla::data
