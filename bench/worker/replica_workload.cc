#include "bench/worker/replica_workload.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/unique_fd.h"
#include "bench/worker/files.h"
#include "colla/array_dataset.h"
#include "colla/collectives.h"
#include "colla/error.h"

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
  for (const auto& [name, tensor, optimizer] : parameters) {
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

struct ReplicaWorkload::Training {
  Training(Job& job, const MakeModel& model, const OptimizerOptions& optimizer,
           const Array& weights, const std::optional<ps::PolicyOptions>& policy,
           const std::shared_ptr<const Dataset>& data, std::int64_t batch, int slices, int slice)
      : order(valueOrThrow(data::Order::create({.samples = data->size(),
                                                .batch = batch,
                                                .slices = slices,
                                                .seed = 1,
                                                .shuffle = false}))),
        // A job of one worker knows its own slice alone.
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

ReplicaWorkload::ReplicaWorkload(Job& job, const AgentPlace& place, Strategy strategy)
    : job_(job), place_(place) {
  if (!hasServers(strategy)) return;
  policy_.emplace().workers = place.np;
  if (strategy == Strategy::kPsAsync) policy_->consistency = ps::Consistency::kAsync;
}

ReplicaWorkload::~ReplicaWorkload() = default;

Status ReplicaWorkload::prepare(const std::string& what) {
  end(training_);  // The old data goes before the new comes.
  data_.reset();
  malloc_trim(0);  // The memory of the model before does not count as this one's.
  std::istringstream words(what);
  std::string name;
  std::string path;
  std::int64_t samples = 0;
  double rate = 0;
  words >> name >> samples >> batch_ >> share_ >> rate >> std::ws;
  std::getline(words, path);
  COLLA_TRY_ASSIGN(const BenchModel* const model, parseModel(name));
  COLLA_TRY_ASSIGN(model_, makerOf(*model));
  optimizer_ = optimizerFor(model->data, rate);
  COLLA_TRY_ASSIGN(const Array inputs, mapFile(path + ".x", model->inputType(), model->input));
  COLLA_TRY_ASSIGN(const Array targets, mapFile(path + ".y", DataType::kInt64, model->target));
  COLLA_TRY_ASSIGN(weights_, mapFile(path + ".w", DataType::kFloat32, {}));
  COLLA_TRY_ASSIGN(
      data_, ArrayDataset::create(name, {{"input", inputs, false}, {"target", targets, false}}));
  return {};
}

std::unique_ptr<ReplicaWorkload::Training> ReplicaWorkload::begin(std::int64_t batch, int slices,
                                                                  int slice) {
  return std::make_unique<Training>(job_, model_, optimizer_, weights_, policy_, data_, batch,
                                    slices, slice);
}

void ReplicaWorkload::end(std::unique_ptr<Training>& training) {
  if (training) training->exchange->leave();
  training.reset();
}

Result<double> ReplicaWorkload::verify(long steps) {
  end(training_);
  // Independent workers have the whole batch here: with halves they would have other losses.
  auto first = begin(batch_, job_.size(), job_.rank());
  const double loss = first->train(steps);
  end(first);
  training_ = begin(share_ * place_.np, place_.np, place_.rank);
  return loss;
}

Status ReplicaWorkload::barrier() {
  if (!training_) return {StatusCode::kInvalidArgument, "verify comes before measure"};
  return colla::barrier(job_.world());
}

Status ReplicaWorkload::run(long steps) {
  training_->train(steps);
  return {};
}

}  // namespace colla::bench
