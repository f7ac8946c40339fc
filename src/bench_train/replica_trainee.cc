#include "replica_trainee.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/unique_fd.h"
#include "bench/train_model.h"
#include "colla/array_dataset.h"
#include "colla/collectives.h"
#include "colla/error.h"
#include "models.h"

namespace colla::bench {
namespace {

// All of the file, as rows of this shape.
Result<Array> mapFile(const std::string& path, DataType type,
                      const std::vector<std::int64_t>& row) {
  const auto failed = [&] {
    return Status(StatusCode::kIo, fmt::format("map {}: {}", path, std::strerror(errno)));
  };
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0) return failed();
  const auto size = static_cast<std::size_t>(info.st_size);
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) return failed();
  std::shared_ptr<void> owner(memory, [size](void* address) { munmap(address, size); });
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(size / sizeOf(type))};
  for (const std::int64_t extent : row) {
    shape[0] /= extent;
    shape.push_back(extent);
  }
  return Array::view(std::move(owner), static_cast<std::byte*>(memory), type, std::move(shape));
}

void setWeights(const std::vector<train::Parameter>& parameters, const Array& weights) {
  const torch::NoGradGuard noGrad;
  const std::span<const float> values = weights.as<float>();
  std::size_t at = 0;
  for (const auto& [name, tensor] : parameters) {
    const auto count = static_cast<std::size_t>(tensor.numel());
    if (at + count > values.size()) break;
    std::ranges::copy(values.subspan(at, count), tensor.data_ptr<float>());
    at += count;
  }
  if (at != values.size()) {
    throw Error(StatusCode::kInvalidArgument, "the first weights are not those of this model");
  }
}

// As the catalog has it.
OptimizerOptions optimizerFor(TrainData data, double rate) {
  switch (data) {
    case TrainData::kProteins:
      return Adam{.lr = rate};
    case TrainData::kText:
      return Adagrad{.lr = rate, .initialAccumulator = 0.1};
    default:
      return Sgd{.lr = rate};
  }
}

}  // namespace

struct ReplicaTrainee::Training {
  Training(Job& job, const MakeModel& model, const OptimizerOptions& optimizer,
           const Array& weights, const std::optional<ps::PolicyOptions>& policy,
           const std::shared_ptr<const Dataset>& data, std::int64_t batch, int slices, int slice)
      : order(valueOrThrow(data::Order::create({.samples = data->size(),
                                                .batch = batch,
                                                .slices = slices,
                                                .seed = 1,
                                                .shuffle = false}))),
        // A job of one worker knows no other slices than its own.
        workers{job, job.world(), valueOrThrow(SliceMap::even(job.size(), job.size()))},
        samples(batch * job.size() / slices),
        replica(model, {.threads = job.threads()}) {
    setWeights(replica.parameters(), weights);
    train::ExchangeSetup setup;
    setup.parameters = replica.parameters();
    setup.rowSparse = replica.model().rowSparse();
    setup.buffers = replica.buffers();
    setup.numbers = replica.numbers();
    setup.optimizer = optimizer;
    setup.policy = policy;
    exchange =
        train::makeExchange(policy ? Strategy::kPsSync : Strategy::kAllreduce, workers, setup);
    exchange->start(0, std::nullopt);
    data::LoaderOptions loading;
    loading.slices = {slice, slice + 1};
    loader = valueOrThrow(data::Loader::create(data, order, loading));
    next = [this] { return valueOrThrow(loader->next()); };
  }

  // The loss of the last step.
  double train(long steps) {
    double loss = 0;
    for (long i = 0; i < steps; ++i) {
      const train::StepInput input{.batch = step++,
                                   .samples = samples,
                                   .allSamples = samples,
                                   .allSlices = workers.map.slices()};
      loss = replica.step(*exchange, workers.slices(), input, next).loss;
    }
    return loss;
  }

  const data::Order order;
  const train::Workers workers;
  const std::int64_t samples;
  train::Replica replica;
  std::unique_ptr<train::Exchange> exchange;
  std::unique_ptr<data::Loader> loader;
  train::Replica::NextBatch next;
  std::int64_t step = 0;
};

ReplicaTrainee::ReplicaTrainee(Job& job, const AgentPlace& place,
                               std::optional<ps::PolicyOptions> policy)
    : job_(job), place_(place), policy_(policy) {}

ReplicaTrainee::~ReplicaTrainee() = default;

Status ReplicaTrainee::prepare(const TrainPoint& point) {
  end(training_);  // The old data goes before the new comes.
  data_.reset();
  malloc_trim(0);  // What the model before took is not this one's.
  point_ = point;
  COLLA_TRY_ASSIGN(const TrainModel* const model, parseTrainModel(point.model));
  COLLA_TRY_ASSIGN(model_, modelNamed(point.model));
  optimizer_ = optimizerFor(model->data, point.rate);
  COLLA_TRY_ASSIGN(const Array inputs,
                   mapFile(point.path + ".x", model->inputType(), model->input));
  COLLA_TRY_ASSIGN(const Array targets,
                   mapFile(point.path + ".y", DataType::kInt64, model->target));
  COLLA_TRY_ASSIGN(weights_, mapFile(point.path + ".w", DataType::kFloat32, {}));
  COLLA_TRY_ASSIGN(data_, ArrayDataset::create(
                              point.model, {{"input", inputs, false}, {"target", targets, false}}));
  return {};
}

std::unique_ptr<ReplicaTrainee::Training> ReplicaTrainee::begin(std::int64_t batch, int slices,
                                                                int slice) {
  return std::make_unique<Training>(job_, model_, optimizer_, weights_, policy_, data_, batch,
                                    slices, slice);
}

void ReplicaTrainee::end(std::unique_ptr<Training>& training) {
  if (training) training->exchange->leave();
  training.reset();
}

Result<double> ReplicaTrainee::verify(long steps) {
  end(training_);
  // Workers of their own have the whole batch here: their halves would give them other losses.
  auto first = begin(point_.batch, job_.size(), job_.rank());
  const double loss = first->train(steps);
  end(first);
  training_ = begin(point_.share * place_.np, place_.np, place_.rank);
  return loss;
}

Result<double> ReplicaTrainee::measure(long steps) {
  if (!training_) return {StatusCode::kInvalidArgument, "verify comes before measure"};
  COLLA_TRY(barrier(job_.world()));
  const auto start = std::chrono::steady_clock::now();
  training_->train(steps);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace colla::bench
