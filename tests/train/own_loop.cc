// A program that owns its loop: ./own_loop STRATEGY [WORD…], under colla run. Each worker prints
// its parameters, and what it has counted of the exchange:
//   worker 1 parameters 0.125 …
//   worker 1 hidden 240 exposed 12 steps 5 samples 40
//
// The words: every=K; average (after the last step); table (a second model, with an embedding);
// state-first (the optimizer's state is broadcast before the parameters are); apart (broadcast
// state in the middle of a round); steps=N.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "colla/distributed_optimizer.h"
#include "colla/server.h"

namespace {

struct Layer : torch::nn::Module {
  explicit Layer(bool tables) {
    if (tables) {
      table = register_module(
          "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(1000, 5).sparse(true)));
    }
    out = register_module("out", torch::nn::Linear(5, 3));
  }
  // Two of the table's rows, or numbers of this slice.
  torch::Tensor forward(int slice, int step) {
    if (table) return out(table(torch::tensor({slice, slice + 1})));
    return out(torch::sin(torch::arange(20).reshape({4, 5}) * (slice + step + 1)));
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear out{nullptr};
};

// By the label: "hidden", "exposed" or none.
std::map<std::string, double> counted(std::string_view name) {
  std::map<std::string, double> values;
  for (const colla::metrics::Sample& sample : colla::metrics::Registry::ofProcess().read()) {
    if (sample.family->name == name) {
      values[sample.labels.empty() ? "" : sample.labels[0]] = sample.value();
    }
  }
  return values;
}

void print(const colla::Job& job, const torch::nn::Module& net) {
  std::string line = "worker " + std::to_string(job.rank()) + " parameters";
  for (const auto& parameter : net.parameters()) {
    const torch::Tensor values = parameter.detach().flatten();
    for (std::int64_t i = 0; i < std::min<std::int64_t>(values.numel(), 50); ++i) {
      char text[32];
      std::snprintf(text, sizeof text, " %.9g", values[i].item<double>());
      line += text;
    }
  }
  auto bytes = counted("colla_exchange_bytes_total");
  std::printf("%s\nworker %d hidden %.0f exposed %.0f steps %.0f samples %.0f\n", line.c_str(),
              job.rank(), bytes["hidden"], bytes["exposed"], counted("colla_steps_total")[""],
              counted("colla_samples_total")[""]);
}

void run(const std::string& strategy, const std::set<std::string>& words,
         const colla::DistributedOptions& chosen, int steps) {
  const auto job = colla::valueOrThrow(colla::Job::init(
      {.torchVersion = TORCH_VERSION, .settings = {{"threads", "1"}}, .serves = true}));
  if (job->role() == colla::Role::kServer) return colla::throwIfError(colla::serve(*job));
  torch::manual_seed(3);
  const bool tables = words.contains("table");
  Layer net(tables);
  {
    // Only rank 0's are to count.
    const torch::NoGradGuard noGrad;
    for (torch::Tensor& parameter : net.parameters()) parameter.add_(job->rank());
  }
  colla::DistributedOptions options = chosen;
  options.strategy = colla::valueOrThrow(colla::parseStrategy(strategy));
  if (tables) options.rowSparse = {"table.weight"};
  if (!words.contains("state-first")) colla::broadcastParameters(*job, net);
  colla::DistributedOptimizer optimizer(*job, net, colla::OptimizerOptions(colla::Sgd{.lr = 0.1}),
                                        options);
  if (words.contains("state-first")) {
    optimizer.broadcastState();
    colla::broadcastParameters(*job, net);
  }
  for (int step = 0; step < steps; ++step) {
    for (int slice = optimizer.slices().begin; slice < optimizer.slices().end; ++slice) {
      net.forward(slice, step).square().mean().backward();
      optimizer.countSamples(4);
    }
    optimizer.step();
    optimizer.zeroGrad();
    if (words.contains("apart")) optimizer.broadcastState();
  }
  if (words.contains("average")) optimizer.average();
  print(*job, net);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::set<std::string> words(argv + 2, argv + argc);
  colla::DistributedOptions options;
  int steps = 5;
  for (const std::string& word : words) {
    if (word.starts_with("every="))
      options.strategyOptions.localSgd.every = std::stoi(word.substr(6));
    if (word.starts_with("steps=")) steps = std::stoi(word.substr(6));
    if (word.starts_with("backup="))
      options.strategyOptions.servers.backup = std::stoi(word.substr(7));
  }
  try {
    run(argv[1], words, options, steps);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_loop: %s\n", error.what());
    return 1;
  }
}
