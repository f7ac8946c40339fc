// A program as a user writes one, with small models: ./train_program MODEL[+HOOK] FLAGS…
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "colla/array_dataset.h"
#include "colla/trainer.h"
#include "program_optimizers.h"

namespace {

struct Mlp : torch::nn::Module {
  Mlp() {
    hidden = register_module("hidden", torch::nn::Linear(784, 24));
    dropout = register_module("dropout", torch::nn::Dropout(0.3));
    out = register_module("out", torch::nn::Linear(24, 10));
    unused = register_module("unused", torch::nn::Linear(3, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return out(dropout(torch::relu(hidden(x.flatten(1)))));
  }
  torch::nn::Linear hidden{nullptr}, out{nullptr}, unused{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

// More than one bucket of gradients, and enough parameters to have them in common. No length is
// that of whole cache lines.
struct Wide : torch::nn::Module {
  Wide() {
    first = register_module("first", torch::nn::Linear(784, 1501));
    second = register_module("second", torch::nn::Linear(1501, 803));
    out = register_module("out", torch::nn::Linear(803, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return out(torch::relu(second(torch::relu(first(x.flatten(1))))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, out{nullptr};
};

// Bits of a product can depend on where its operands begin.
struct Boundaries : colla::Hook {
  void afterStep(const colla::Progress& /*progress*/, colla::Model& model) override {
    for (const auto& item : model.module().named_parameters()) {
      for (const torch::Tensor& tensor : {item.value(), item.value().grad()}) {
        if (!tensor.defined() || reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64 == 0) {
          continue;
        }
        throw std::runtime_error(item.key() + " starts on no 64-byte boundary");
      }
    }
  }
};

// The run has done what it was for.
struct StopsAfterEvaluation : colla::Hook {
  void afterEvaluation(const colla::Progress& progress, colla::Model& model) override {
    std::printf("evaluated %ld\n", static_cast<long>(progress.step));
    if (model.module().is_training()) throw std::runtime_error("the model is in training mode");
    if (progress.step >= 9) progress.requestStop("this is enough");
  }
};

struct StopsAfterStep : colla::Hook {
  void afterStep(const colla::Progress& progress, colla::Model& /*model*/) override {
    if (progress.step >= 4) progress.requestStop("this is enough");
  }
};

// Ends the process, as a library may.
struct ExitsAfterStep : colla::Hook {
  void afterStep(const colla::Progress& progress, colla::Model& /*model*/) override {
    if (progress.step >= 6) _exit(3);
  }
};

// An error of the program's own.
struct ThrowsAfterStep : colla::Hook {
  void afterStep(const colla::Progress& progress, colla::Model& /*model*/) override {
    if (progress.step >= 6) throw std::runtime_error("the hook is out of hooks");
  }
};

// Ctrl-C, which the next step heeds.
struct InterruptedInStep6 : colla::Hook {
  void afterStep(const colla::Progress& progress, colla::Model& /*model*/) override {
    if (progress.step == 5) std::raise(SIGINT);
  }
};

std::shared_ptr<colla::Hook> hookOf(const std::string& name) {
  if (name == "stops-after-evaluation") return std::make_shared<StopsAfterEvaluation>();
  if (name == "stops-after-step") return std::make_shared<StopsAfterStep>();
  if (name == "exits-after-step") return std::make_shared<ExitsAfterStep>();
  if (name == "throws-after-step") return std::make_shared<ThrowsAfterStep>();
  if (name == "interrupted-in-step-6") return std::make_shared<InterruptedInStep6>();
  throw std::invalid_argument("no hook \"" + name + "\"");
}

struct Conv : torch::nn::Module {
  Conv() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 5).stride(2)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    out = register_module("out", torch::nn::Linear(4 * 12 * 12, 10));
    constant = register_buffer("constant", torch::full({7}, 0.1));
    darkest = register_buffer("darkest", torch::zeros({2}, torch::kInt64));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    if (is_training()) darkest.copy_(x.flatten(1).sum(1).argmin());
    return out(torch::relu(norm(conv(x.reshape({-1, 1, 28, 28})))).flatten(1));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear out{nullptr};
  torch::Tensor constant;
  torch::Tensor darkest;  // Depends on the samples, and has no mean.
};

// A layer used twice.
struct Twice : torch::nn::Module {
  Twice() {
    in = register_module("in", torch::nn::Linear(784, 32));
    again = register_module("again", torch::nn::Linear(32, 32));
    out = register_module("out", torch::nn::Linear(32, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor once = torch::relu(again(torch::relu(in(x.flatten(1)))));
    return out(torch::relu(again(once)));
  }
  torch::nn::Linear in{nullptr}, again{nullptr}, out{nullptr};
};

// An optimizer that neither Colla nor libtorch knows: it goes by the signs of a running mean.
struct SignsOptions : torch::optim::OptimizerCloneableOptions<SignsOptions> {
  explicit SignsOptions(double rate = 1e-3) : lr_(rate) {}
  TORCH_ARG(double, lr);

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    torch::IValue value;
    archive.read("lr", value);
    lr_ = value.toDouble();
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    archive.write("lr", torch::IValue(lr_));
  }
  double get_lr() const override { return lr_; }
  void set_lr(const double lr) override { lr_ = lr; }
};

struct SignsState : torch::optim::OptimizerCloneableParamState<SignsState> {
  torch::Tensor mean;
  std::int64_t steps = 0;
  void serialize(torch::serialize::InputArchive& archive) override {
    torch::IValue value;
    archive.read("mean", mean);
    archive.read("steps", value);
    steps = value.toInt();
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    archive.write("mean", mean);
    archive.write("steps", torch::IValue(steps));
  }
};

struct Signs : torch::optim::Optimizer {
  explicit Signs(std::vector<torch::Tensor> parameters)
      : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))},
                  std::make_unique<SignsOptions>()) {}
  torch::Tensor step(LossClosure /*closure*/ = nullptr) override {
    const torch::NoGradGuard noGrad;
    for (auto& group : param_groups_) {
      for (const torch::Tensor& parameter : group.params()) {
        if (!parameter.grad().defined()) continue;
        auto& slot = state_[parameter.unsafeGetTensorImpl()];
        if (!slot) {
          auto fresh = std::make_unique<SignsState>();
          fresh->mean = torch::zeros_like(parameter);
          slot = std::move(fresh);
        }
        auto& state = static_cast<SignsState&>(*slot);
        state.mean.mul_(0.9).add_(parameter.grad(), 0.1);
        parameter.add_(state.mean.sign(),
                       -group.options().get_lr() / static_cast<double>(++state.steps));
      }
    }
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<SignsState, SignsOptions>(archive, *this);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<SignsState, SignsOptions>(archive, *this);
  }
};

template <typename Class>
colla::TorchOptimizer torchOptimizer(const std::string& text) {
  return {[](std::vector<torch::Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
            return std::make_unique<Class>(std::move(parameters));
          },
          text};
}

struct Lstm : torch::nn::Module {
  Lstm() {
    lstm = register_module(
        "lstm", torch::nn::LSTM(
                    torch::nn::LSTMOptions(28, 12).num_layers(2).batch_first(true).dropout(0.2)));
    out = register_module("out", torch::nn::Linear(12, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return out(std::get<0>(lstm(x.reshape({-1, 28, 28}))).select(1, -1));
  }
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear out{nullptr};
};

// A table of which a step touches few rows: a row for each value that some of the pixels can have.
struct Table : torch::nn::Module {
  static constexpr std::int64_t kPixels = 20;
  explicit Table(std::int64_t count) : values(count) {
    table = register_module(
        "table",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(kPixels * values, 6).sparse(true)));
    out = register_module("out", torch::nn::Linear(kPixels * 6, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor pixels = x.flatten(1).narrow(1, 300, kPixels);
    const torch::Tensor level =
        (pixels * static_cast<double>(values)).to(torch::kInt64).clamp_max(values - 1);
    const torch::Tensor rows = level + torch::arange(kPixels, torch::kInt64) * values;
    return out(table(rows).flatten(1));
  }
  const std::int64_t values;
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear out{nullptr};
};

class TableModel final : public colla::Model {
 public:
  explicit TableModel(std::int64_t values, bool alone = false)
      : net_(std::make_shared<Table>(values)) {
    if (!alone) return;
    for (torch::Tensor& parameter : net_->out->parameters()) parameter.set_requires_grad(false);
  }
  torch::nn::Module& module() override { return *net_; }
  std::vector<std::string> metrics() const override { return {"accuracy"}; }
  std::vector<std::string> rowSparse() const override { return {"table.weight"}; }
  colla::Output compute(const std::vector<torch::Tensor>& batch) override {
    const torch::Tensor logits = net_->forward(batch.at(0));
    return {torch::nn::functional::cross_entropy(logits, batch.at(1)),
            {colla::accuracyOf(logits, batch.at(1))}};
  }

 private:
  std::shared_ptr<Table> net_;
};

// A table, BatchNorm and layers with biases.
struct Layers : torch::nn::Module {
  Layers() {
    table = register_module(
        "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(kPixels * 16, 4).sparse(true)));
    hidden = register_module("hidden", torch::nn::Linear(784 + kPixels * 4, 16));
    norm = register_module("norm", torch::nn::BatchNorm1d(16));
    out = register_module("out", torch::nn::Linear(16, 10));
  }
  torch::Tensor forward(const torch::Tensor& image) {
    const torch::Tensor x = image.flatten(1);
    const torch::Tensor level = (x.narrow(1, 300, kPixels) * 16.0).to(torch::kInt64).clamp_max(15);
    const torch::Tensor rows = table(level + torch::arange(kPixels, torch::kInt64) * 16).flatten(1);
    return out(torch::relu(norm(hidden(torch::cat({x, rows}, 1)))));
  }
  static constexpr std::int64_t kPixels = 20;
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

class LayersModel final : public colla::Model {
 public:
  torch::nn::Module& module() override { return *net_; }
  std::vector<std::string> rowSparse() const override { return {"table.weight"}; }
  colla::Output compute(const std::vector<torch::Tensor>& batch) override {
    return {torch::nn::functional::cross_entropy(net_->forward(batch.at(0)), batch.at(1)), {}};
  }

 private:
  std::shared_ptr<Layers> net_ = std::make_shared<Layers>();
};

// On rank 1, after a few steps, a gradient that is not finite, of a loss that is.
struct Poison : torch::nn::Module {
  Poison() { out = register_module("out", torch::nn::Linear(784, 10)); }
  torch::Tensor forward(const torch::Tensor& x) {
    const char* const rank = std::getenv("COLLA_RANK");
    const bool poisons = rank != nullptr && std::string(rank) == "1" && ++calls > 5;
    const torch::Tensor logits = out(x.flatten(1));
    return poisons ? logits + torch::sqrt(out->bias * 0) : logits;
  }
  torch::nn::Linear out{nullptr};
  int calls = 0;
};

// Its lookups shrink the rows that they read.
struct Renorm : torch::nn::Module {
  Renorm() {
    table = register_module("table",
                            torch::nn::Embedding(torch::nn::EmbeddingOptions(2, 10).max_norm(0.5)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return table((x.flatten(1).sum(1) > 100).to(torch::kInt64));
  }
  torch::nn::Embedding table{nullptr};
};

// Says which samples it gets, in their order.
struct Reader : torch::nn::Module {
  Reader() { out = register_module("out", torch::nn::Linear(1, 2)); }
  torch::Tensor forward(const torch::Tensor& x) {
    std::string line = "samples";
    for (std::int64_t i = 0; i < x.size(0); ++i) {
      line += ' ';
      line += std::to_string(x[i].item<std::int64_t>());
    }
    std::puts(line.c_str());
    return out(x);
  }
  torch::nn::Linear out{nullptr};
};

// Never comes to the end of its first step.
struct Endless : torch::nn::Module {
  Endless() { out = register_module("out", torch::nn::Linear(784, 10)); }
  torch::Tensor forward(const torch::Tensor& x) {
    std::puts("in the first step");
    std::fflush(stdout);
    while (true) pause();
    return out(x.flatten(1));
  }
  torch::nn::Linear out{nullptr};
};

// Six samples: their numbers.
colla::Result<std::shared_ptr<const colla::Dataset>> numbers(colla::Part) {
  COLLA_TRY_ASSIGN(const auto inputs, colla::Array::allocate(colla::DataType::kFloat32, {6, 1}));
  COLLA_TRY_ASSIGN(const auto classes, colla::Array::allocate(colla::DataType::kInt64, {6}));
  for (int i = 0; i < 6; ++i) {
    inputs.as<float>()[i] = static_cast<float>(i);
    classes.as<std::int64_t>()[i] = i % 2;
  }
  COLLA_TRY_ASSIGN(const auto data, colla::ArrayDataset::create(
                                        "numbers", {{"number", inputs}, {"class", classes}}, 2));
  return std::shared_ptr<const colla::Dataset>(data);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  const std::size_t plus = word.find('+');
  const std::string model = word.substr(0, plus);
  colla::Task task;
  task.name = model;
  task.data = [](colla::Part part) { return colla::openDataset("synthetic:mnist:602", part); };
  if (model == "mlp") {
    task.model = [] { return colla::classifier(std::make_shared<Mlp>()); };
    task.optimizer = colla::Adam{.lr = 1e-3};
  } else if (model == "wide") {
    task.model = [] { return colla::classifier(std::make_shared<Wide>()); };
    task.optimizer = colla::Sgd{.lr = 0.01, .momentum = 0.5};
    task.hooks = {std::make_shared<Boundaries>()};
  } else if (model == "table") {
    task.model = [] { return std::make_unique<TableModel>(64); };
    task.optimizer = colla::Adam{.lr = 1e-2};
  } else if (model == "full-table") {  // A step touches nearly all rows.
    task.model = [] { return std::make_unique<TableModel>(2); };
    task.optimizer = colla::Adam{.lr = 1e-2};
  } else if (model == "only-table") {  // Nothing else is trained.
    task.model = [] { return std::make_unique<TableModel>(64, true); };
    task.optimizer = colla::Sgd{.lr = 0.1};
  } else if (model == "twice") {
    task.model = [] { return colla::classifier(std::make_shared<Twice>()); };
    task.optimizer = colla::Sgd{.lr = 0.05, .momentum = 0.9};
  } else if (model == "signs") {
    task.model = [] { return colla::classifier(std::make_shared<Mlp>()); };
    task.optimizer = torchOptimizer<Signs>("signs lr=0.001");
  } else if (model == "both-own" || model == "noisy" || model == "forgetful") {
    task.model = [] { return colla::classifier(std::make_shared<Mlp>()); };
    task.optimizer = colla::ownOptimizer(model);
  } else if (model == "both") {
    task.model = [] { return colla::classifier(std::make_shared<Mlp>()); };
    task.optimizer = torchOptimizer<colla::Both>("both");
  } else if (model == "collecting") {
    task.model = [] { return colla::classifier(std::make_shared<Mlp>()); };
    task.optimizer = torchOptimizer<colla::Collecting>("collecting");
  } else if (model == "drawing") {
    task.model = [] { return colla::classifier(std::make_shared<Mlp>()); };
    task.optimizer = torchOptimizer<colla::Drawing>("drawing");
  } else if (model == "lookahead") {
    task.model = [] { return colla::classifier(std::make_shared<Mlp>()); };
    task.optimizer = torchOptimizer<colla::Lookahead>("lookahead");
  } else if (model.starts_with("groups")) {
    task.model = [] { return std::make_unique<LayersModel>(); };
    task.optimizer = colla::Adam{.lr = 1e-3};
    if (model == "groups-nothing") {
      task.groups = {{.parameters = "hidden.*", .lrFactor = 0.1}, {.parameters = "haed.*"}};
    } else if (model == "groups-overlap") {
      task.groups = {{.parameters = "out.*", .frozen = true},
                     {.parameters = "*.bias", .weightDecay = 0}};
    } else {
      task.groups = colla::randomGroups(static_cast<unsigned>(std::stoi(model.substr(6))));
    }
  } else if (model == "lbfgs") {
    task.model = [] { return colla::classifier(std::make_shared<Mlp>()); };
    task.optimizer = torchOptimizer<torch::optim::LBFGS>("torch LBFGS");
  } else if (model == "poison") {
    task.model = [] { return colla::classifier(std::make_shared<Poison>()); };
  } else if (model == "renorm") {
    task.model = [] { return colla::classifier(std::make_shared<Renorm>()); };
  } else if (model == "endless") {
    task.model = [] { return colla::classifier(std::make_shared<Endless>()); };
  } else if (model == "halving") {
    task.model = [] { return colla::classifier(std::make_shared<Mlp>()); };
    task.optimizer = colla::Sgd{.lr = 0.1};
    task.schedule.shape = colla::StepRate{.every = 2, .factor = 0.5};
  } else if (model == "reader") {
    task.model = [] { return colla::classifier(std::make_shared<Reader>()); };
    task.data = numbers;
  } else if (model == "no-model") {
  } else if (model == "no-data") {
    task.model = [] { return colla::classifier(std::make_shared<Mlp>()); };
    task.data = nullptr;
  } else if (model == "null-model") {
    task.model = [] { return nullptr; };
  } else if (model == "null-module") {
    task.model = [] { return colla::classifier(std::shared_ptr<Mlp>()); };
  } else if (model == "null-module-and-loss") {
    task.model = [] {
      return colla::modelOf(std::shared_ptr<Mlp>(),
                            [](const torch::Tensor& output, const torch::Tensor& target) {
                              return torch::nn::functional::cross_entropy(output, target);
                            });
    };
  } else if (model == "conv") {
    task.model = [] { return colla::classifier(std::make_shared<Conv>()); };
    task.optimizer = colla::Sgd{.lr = 0.05, .momentum = 0.9};
  } else if (model == "lstm") {
    task.model = [] { return colla::classifier(std::make_shared<Lstm>()); };
    task.optimizer = colla::TorchOptimizer{
        [](std::vector<torch::Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
          return std::make_unique<torch::optim::RMSprop>(std::move(parameters),
                                                         torch::optim::RMSpropOptions(1e-3));
        },
        "torch RMSprop lr=0.001"};
  } else {
    std::fprintf(stderr, "no model \"%s\"\n", model.c_str());
    return 2;
  }
  if (plus != std::string::npos) task.hooks.push_back(hookOf(word.substr(plus + 1)));
  argv[1] = argv[0];
  return colla::Trainer(std::move(task)).main(argc - 1, argv + 1);
}
