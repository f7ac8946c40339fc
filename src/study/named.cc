#include "study/named.h"

#include <algorithm>
#include <array>

namespace colla::study {
namespace {

Options ofModel(std::string study, std::string model) {
  Options options;
  options.study = std::move(study);
  options.program.words = {std::move(model)};
  return options;
}

// One worker with batch B beside n workers with B each, without shuffling; checkpoints at the
// beginning, in the middle and at the end are compared.
Options deepfamOptions() {
  Options options = ofModel("deepfam", "deepfam");
  options.strategies = {"ps-sync", "ps-async", "ps-ssp", "allreduce", "hybrid"};
  options.workers = {1, 2};
  options.batch = 100;
  options.batchPerWorker = true;
  options.settings.shuffle = false;
  options.steps = 200;
  options.evalEvery = 10;
  options.saveEvery = 100;
  options.alternatives = false;
  options.together = true;
  options.repeat = 1;
  return options;
}

std::vector<std::string> deepfamNotes() {
  return {
      "In the published run of this experiment vanilla TensorFlow ended with other weights than "
      "Horovod and Parallax, whose weights were equal: TensorFlow's servers added gradients in the "
      "order in which they came, and floating-point addition is not associative.",
      "Here every strategy that waits for all workers adds gradients in one fixed order, along the "
      "canonical tree. So ps-sync, ps-ssp with staleness 0, allreduce and hybrid have the same bits, "
      "and so has one process that runs the slices of all workers in turn. ps-async applies gradients "
      "as they come and differs. One worker with a smaller batch has seen fewer samples and differs "
      "too."};
}

const std::array kNamed = {
    NamedStudy{"deepfam", "one worker beside many on protein families, every pair of checkpoints compared",
               deepfamOptions, deepfamNotes},
};

}  // namespace

std::span<const NamedStudy> namedStudies() { return kNamed; }

const NamedStudy* findNamed(std::string_view name) {
  const auto found = std::ranges::find(kNamed, name, &NamedStudy::name);
  return found == kNamed.end() ? nullptr : &*found;
}

}  // namespace colla::study
