#include "models/beam_search.h"

#include <algorithm>

namespace colla::models {
namespace {

struct Continuation {
  double logProbability;
  std::size_t from;  // Which candidate it goes on from.
  std::int64_t word;
};

bool lessLikely(const Sentence& a, const Sentence& b) {
  return a.logProbability < b.logProbability;
}

// The best `beam` of all ways to go on; ties go to the earlier candidate and the smaller word.
std::vector<Continuation> best(const std::vector<Sentence>& sentences, const torch::Tensor& logs,
                               std::int64_t beam) {
  std::vector<Continuation> all;
  const auto [values, words] = logs.topk(std::min(beam, logs.size(1)), 1);
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    for (std::int64_t k = 0; k < values.size(1); ++k) {
      const auto row = static_cast<std::int64_t>(i);
      all.push_back({sentences[i].logProbability + values[row][k].item<double>(), i,
                     words[row][k].item<std::int64_t>()});
    }
  }
  std::ranges::sort(all, [](const Continuation& a, const Continuation& b) {
    if (a.logProbability != b.logProbability) return a.logProbability > b.logProbability;
    return a.from != b.from ? a.from < b.from : a.word < b.word;
  });
  all.resize(std::min(all.size(), static_cast<std::size_t>(beam)));
  return all;
}

}  // namespace

Sentence beamSearch(const LstmImpl::State& state, const BeamStep& step,
                    const BeamOptions& options) {
  std::vector<Sentence> open(1);
  std::vector<Sentence> ended;
  LstmImpl::State states = state;
  std::vector<std::int64_t> last = {options.start};
  for (std::int64_t length = 0; length < options.most && !open.empty(); ++length) {
    const torch::Tensor logs = step(states, torch::tensor(last, torch::kInt64));
    std::vector<Sentence> next;
    std::vector<std::int64_t> from;
    last.clear();
    for (const Continuation& way : best(open, logs.to(torch::kFloat64), options.beam)) {
      Sentence sentence{open[way.from].words, way.logProbability};
      if (way.word == options.end) {
        ended.push_back(std::move(sentence));
        continue;
      }
      sentence.words.push_back(way.word);
      last.push_back(way.word);
      from.push_back(static_cast<std::int64_t>(way.from));
      next.push_back(std::move(sentence));
    }
    open = std::move(next);
    if (static_cast<std::int64_t>(ended.size()) >= options.beam || open.empty()) break;
    const torch::Tensor rows = torch::tensor(from, torch::kInt64);
    states = {states.h.index_select(0, rows), states.c.index_select(0, rows)};
  }
  const std::vector<Sentence>& found = ended.empty() ? open : ended;
  return *std::ranges::max_element(found, lessLikely);
}

}  // namespace colla::models
