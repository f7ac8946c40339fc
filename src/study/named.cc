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
      "canonical tree. So ps-sync, ps-ssp with staleness 0, allreduce and hybrid have the same "
      "bits, "
      "and so has one process that runs the slices of all workers in turn. ps-async applies "
      "gradients "
      "as they come and differs. One worker with a smaller batch has seen fewer samples and "
      "differs "
      "too."};
}

// Throughput of captions after step 100 of 200, and what a backup worker buys when one is slow.
Options im2txtOptions() {
  Options options = ofModel("im2txt", "im2txt");
  options.strategies = {"ps-sync", "allreduce", "hybrid"};
  options.slowedStrategies = {"ps-sync", "ps-sync:backup=1"};
  options.workers = {1, 2};
  options.steps = 200;
  options.warmUp = 100;
  options.evalEvery = 200;
  options.alternatives = false;
  return options;
}

std::vector<std::string> im2txtNotes() {
  return {
      "Published for this experiment, on a laptop's processor and without a unit: TensorFlow "
      "0.157594, "
      "Horovod 0.150986, Parallax 0.137008. They cannot be compared with the figures of this run."};
}

// A small network, whose communication is long beside its computation.
Options scalingOptions() {
  Options options = ofModel("scaling", "snn");
  options.strategies = {"ps-sync", "ps-async", "allreduce"};
  options.workers = {1, 3, 5};
  options.batch = 100;
  options.batchPerWorker = true;
  options.steps = 200;
  options.alternatives = false;
  return options;
}

std::vector<std::string> scalingNotes() { return {}; }

// Twenty measured steps for each number of workers, with a batch that grows with them.
Options resnetOptions() {
  Options options = ofModel("resnet", "resnet50v2");
  options.settings.data = "synthetic:cifar10:1000";
  options.strategies = {"allreduce", "ps-sync"};
  options.workers = {1, 2};
  options.batch = 8;
  options.batchPerWorker = true;
  options.steps = 25;
  options.warmUp = 5;
  options.evalEvery = 25;
  options.repeat = 2;
  options.alternatives = false;
  return options;
}

std::vector<std::string> resnetNotes() {
  return {
      "Seconds per epoch are extrapolated from the median of 20 steps. Accuracy after so few steps "
      "says "
      "nothing of the model."};
}

const std::array kNamed = {
    NamedStudy{"deepfam",
               "one worker beside many on protein families, every pair of checkpoints compared",
               deepfamOptions, deepfamNotes},
    NamedStudy{"im2txt", "captions, and what backup workers buy when one worker is slow",
               im2txtOptions, im2txtNotes},
    NamedStudy{"resnet", "ResNet-50 V2 with a batch that grows with the workers", resnetOptions,
               resnetNotes},
    NamedStudy{"scaling", "a small network with 1, 3 and 5 workers and a server", scalingOptions,
               scalingNotes},
};

}  // namespace

std::span<const NamedStudy> namedStudies() { return kNamed; }

const NamedStudy* findNamed(std::string_view name) {
  const auto found = std::ranges::find(kNamed, name, &NamedStudy::name);
  return found == kNamed.end() ? nullptr : &*found;
}

}  // namespace colla::study
