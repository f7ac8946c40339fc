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
  options.published = {{"TensorFlow (as ps-sync)", 0.157594, ""},
                       {"Horovod (as allreduce)", 0.150986, ""},
                       {"Parallax (as hybrid)", 0.137008, ""}};
  return options;
}

std::vector<std::string> im2txtNotes() {
  return {
      "What was published for this experiment was measured on a laptop's processor, and given "
      "without "
      "a unit: it cannot be compared with the figures of this run."};
}

// What many systems were compared with each other on: logistic regression of 10,000 samples with
// 10,000 features, and small networks on digits, with three workers and a server.
SuitePart platformPart(std::string name, std::string title, std::string model, std::int64_t batch,
                       bool perWorker) {
  Options options = ofModel("platforms", std::move(model));
  options.settings.data =
      options.program.name() == "lr" ? "synthetic:lr:10000x10000" : "synthetic:mnist";
  options.settings.shuffle = false;
  // Every system has the same optimizer.
  options.program.flags = {"--optimizer", "sgd", "--lr", "0.1"};
  options.strategies = {"allreduce", "ps-sync", "ps-async"};
  options.workers = {3};
  options.batch = batch;
  options.batchPerWorker = perWorker;
  options.steps = 100;
  options.evalEvery = options.steps;
  options.alternatives = false;
  return {std::move(name), std::move(title), std::move(options)};
}

std::vector<SuitePart> platformParts() {
  const std::string rate = "samples/s";
  std::vector<SuitePart> parts = {
      platformPart("lr-batch-100", "Logistic regression, batch 100 per worker", "lr", 100, true),
      platformPart("lr-batch-500", "Logistic regression, batch 500 per worker", "lr", 500, true),
      platformPart("lr-ssp", "Logistic regression, staleness 3, batch 1 per worker", "lr", 1, true),
      platformPart("lr-full-batch", "Logistic regression, full batch", "lr", 10'000, false),
      platformPart("softmax", "Softmax regression on digits, batch 100 per worker", "softmax", 100,
                   true),
      platformPart("snn", "One hidden layer on digits, batch 100 per worker", "snn", 100, true),
      platformPart("mlp", "Two hidden layers on digits, batch 100 per worker", "mlp", 100, true)};
  parts[0].options.published = {{"TensorFlow sync, 3 + 1 machines, 2017", 403, rate},
                                {"MXNet sync, 3 + 1 machines, 2017", 19277, rate}};
  parts[1].options.published = {{"TensorFlow sync, 3 + 1 machines, 2017", 443, rate},
                                {"MXNet sync, 3 + 1 machines, 2017", 19283, rate}};
  Options& ssp = parts[2].options;
  ssp.published = {{"PMLS, staleness 3, 3 + 1 machines, 2017", 21132, rate}};
  ssp.strategies = {"ps-ssp:staleness=3"};
  ssp.withoutPeers = true;  // No peer has bounded staleness.
  ssp.steps = 1000;
  ssp.evalEvery = ssp.steps;
  Options& full = parts[3].options;
  full.published = {{"Spark full batch, 3 + 1 machines, 2017", 5883, rate}};
  full.strategies = {"allreduce", "ps-sync"};
  full.peersFromDisk = true;
  full.steps = 20;
  full.evalEvery = full.steps;
  return parts;
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

std::vector<std::string> scalingNotes() {
  return {"Each worker has a batch of its own, so the batch of a step grows with the workers."};
}

// Twenty measured steps for each number of workers, with a batch that grows with them.
Options resnetOptions(std::string model) {
  Options options = ofModel("resnet", std::move(model));
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

std::vector<SuitePart> resnetParts() {
  return {{"resnet50v2", "ResNet-50 V2 on images of 128x128", resnetOptions("resnet50v2")},
          {"resnet152v2", "ResNet-152 V2 on images of 128x128", resnetOptions("resnet152v2")}};
}

std::vector<std::string> resnetNotes() {
  return {
      "Seconds per epoch are extrapolated from the median of 20 steps. Accuracy after so few "
      "steps says nothing of the model."};
}

const std::array kNamed = {
    NamedStudy{"deepfam",
               "one worker beside many on protein families, every pair of checkpoints compared",
               deepfamOptions, deepfamNotes},
    NamedStudy{"im2txt", "captions, and what backup workers buy when one worker is slow",
               im2txtOptions, im2txtNotes},
    NamedStudy{
        .name = "platforms",
        .summary = "regressions and small networks on 3 workers, with --peers in the same run",
        .parts = platformParts},
    NamedStudy{.name = "resnet",
               .summary = "ResNet-50 V2 and 152 V2 with a batch that grows with the workers",
               .notes = resnetNotes,
               .parts = resnetParts},
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
