#include <fmt/format.h>

#include <variant>

#include "train/flags.h"

namespace colla::train {

void showDefaults(CLI::App& app, const Task& task) {
  app.get_option("--batch")->default_str(std::to_string(task.batch));
  app.get_option("--lr-schedule")->default_str(toString(task.schedule));
  app.get_option("--clip-norm")->default_str(fmt::format("{}", task.clipNorm));
  const auto* const optimizer = std::get_if<OptimizerOptions>(&task.optimizer);
  if (optimizer == nullptr) return;  // One of torch's: the program alone knows.
  const std::string text = toString(*optimizer);
  app.get_option("--optimizer")->default_str(text.substr(0, text.find(' ')));
  app.get_option("--lr")->default_str(fmt::format("{}", learningRate(*optimizer)));
  std::visit(
      [&](const auto& chosen) {
        app.get_option("--weight-decay")->default_str(fmt::format("{}", chosen.weightDecay));
        if constexpr (requires { chosen.momentum; }) {
          app.get_option("--momentum")->default_str(fmt::format("{}", chosen.momentum));
        }
      },
      *optimizer);
}

}  // namespace colla::train
