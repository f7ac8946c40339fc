#include "colla/trainer.h"

struct Net : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& image) {
    return out(dropout(torch::relu(hidden(image.flatten(1)))));
  }
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(784, 128));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.2));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(128, 10));
};

int main(int argc, char** argv) {
  colla::Task task;
  task.name = "net";
  task.model = [] { return colla::classifier(std::make_shared<Net>()); };
  task.optimizer = colla::Adam{.lr = 1e-3};
  task.data = [](colla::Part part) { return colla::openDataset("synthetic:mnist:6000", part); };
  return colla::Trainer(std::move(task)).main(argc, argv);
}
