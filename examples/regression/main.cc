// Logistic regression with a stale synchronous table: no network, no libtorch.
//
//   colla run -np 2 --ps 1 -- ./regression [EPOCHS [STALENESS]]
//
// Each worker has its share of the samples; the weights are one dense row. Worker 0 prints loss and
// accuracy after every epoch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "colla/cluster_flags.h"
#include "colla/collectives.h"
#include "colla/job.h"
#include "colla/server.h"
#include "colla/table.h"

namespace {

constexpr std::size_t kFeatures = 30;
constexpr int kSamples = 4000;
constexpr std::size_t kBatch = 20;
constexpr float kRate = 0.5f;

struct Sample {
  std::vector<float> features;
  float label = 0;
};

std::vector<Sample> samplesOf(int rank, int size) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> truth(kFeatures);
  for (float& weight : truth) weight = normal(random);
  std::vector<Sample> mine;
  for (int i = 0; i < kSamples; ++i) {
    Sample sample{std::vector<float>(kFeatures), 0};
    float score = 0.3f * normal(random);
    for (std::size_t f = 0; f < kFeatures; ++f) {
      sample.features[f] = normal(random);
      score += truth[f] * sample.features[f];
    }
    sample.label = score > 0 ? 1.0f : 0.0f;
    if (i % size == rank) mine.push_back(std::move(sample));
  }
  return mine;
}

colla::Status train(colla::Job& job, int epochs, std::int64_t staleness) {
  COLLA_TRY_ASSIGN(
      const auto tables,
      colla::Tables::open(job, {{.name = "weights", .rows = 1, .width = kFeatures, .dense = true}},
                          {.staleness = staleness}));
  colla::Table& weights = tables->table("weights");
  const std::vector<Sample> samples = samplesOf(job.rank(), job.size());
  std::vector<float> w(kFeatures);
  std::vector<float> change(kFeatures);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double loss = 0;
    double right = 0;
    for (std::size_t first = 0; first < samples.size(); first += kBatch) {
      const std::size_t end = std::min(first + kBatch, samples.size());
      COLLA_TRY(weights.get(0, w));
      std::ranges::fill(change, 0.0f);
      for (std::size_t i = first; i < end; ++i) {
        float score = 0;
        for (std::size_t f = 0; f < kFeatures; ++f) score += w[f] * samples[i].features[f];
        const float probability = 1 / (1 + std::exp(-score));
        const float error = samples[i].label - probability;
        loss -= std::log(std::max(samples[i].label > 0 ? probability : 1 - probability, 1e-7f));
        right += (probability > 0.5f) == (samples[i].label > 0) ? 1 : 0;
        // This worker's share of the mean over all workers' samples.
        const float rate = kRate / static_cast<float>(kBatch) / static_cast<float>(job.size());
        for (std::size_t f = 0; f < kFeatures; ++f)
          change[f] += rate * error * samples[i].features[f];
      }
      COLLA_TRY(weights.inc(0, change));
      COLLA_TRY(tables->clock());
    }
    std::vector<double> sums = {loss, right, static_cast<double>(samples.size())};
    COLLA_TRY(colla::allreduce(job.world(), sums));
    if (job.rank() == 0) {
      std::printf("epoch %d: loss %.4f, accuracy %.4f\n", epoch + 1, sums[0] / sums[2],
                  sums[1] / sums[2]);
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const colla::Status place = colla::takeClusterFlags(argc, argv);
  if (!place.ok()) {
    std::fprintf(stderr, "regression: %s\n", colla::toString(place).c_str());
    return 2;
  }
  const auto job = colla::Job::init({.serves = true});
  const int epochs = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::int64_t staleness = argc > 2 ? std::atoll(argv[2]) : 2;
  const colla::Status status = !job.ok() ? job.status()
                               : (*job)->role() == colla::Role::kServer
                                   ? colla::serve(**job)
                                   : train(**job, epochs, staleness);
  if (status.ok()) return 0;
  std::fprintf(stderr, "regression: %s\n", colla::toString(status).c_str());
  return 1;
}
