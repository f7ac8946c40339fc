#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "base/command_line.h"
#include "checkpoint/compare.h"
#include "checkpoint/report.h"
#include "checkpoint/source.h"
#include "commands.h"
#include "foreign/open.h"

namespace colla::cli {
namespace {

constexpr int kExitDifferent = 1;
constexpr int kExitError = 2;
// Of each tensor, unless --values says how many.
constexpr char kValues[] = "--values{5}";

}  // namespace

int compareCommand(const Arguments& arguments) {
  CLI::App app(
      "Compares two checkpoints, parameters, buffers and optimizer state, bit by bit:\n"
      "colla compare A[@STEP] B[@STEP] [flags]",
      "colla compare");
  app.footer(
      "A and B are directories of checkpoints, a run's directory (the newest step is taken unless\n"
      "one is named), the directory of one step, .safetensors files, checkpoints of TensorFlow\n"
      "(model.ckpt-100) or weight files of Keras (.weights.h5, .h5, .keras). Exit code: 0 equal,\n"
      "1 different, 2 error.\n\n"
      "Examples:\n"
      "  colla compare runs/a runs/b\n"
      "  colla compare runs/a@200 runs/b@200 --tolerance 1e-6 --json difference.json\n"
      "  colla compare --values parallax_ckpt/model.ckpt-100 horovod_ckpt/model.ckpt-100\n");
  std::string a;
  std::string b;
  double tolerance = 0;
  std::size_t values = 0;
  std::string json;
  app.add_option("A", a, "the one")->required();
  app.add_option("B", b, "the other")->required();
  auto* toleranceOption = app.add_option(
      "--tolerance", tolerance, "absolute differences up to this count as equal (but are told)");
  app.add_flag(
         kValues, values,
         "print both sides of the first 5 elements that differ in each tensor; --values=N: of N")
      ->option_text("[=N]");
  addJsonFlag(app, json, "the same as JSON");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  if (!(tolerance >= 0) || std::isinf(tolerance)) {
    return usageError(app.get_name(), "--tolerance takes a number that is not negative");
  }

  const auto left = foreign::open(a);
  if (!left.ok()) return usageError(app.get_name(), left.status().message());
  const auto right = foreign::open(b);
  if (!right.ok()) return usageError(app.get_name(), right.status().message());
  const auto comparison = checkpoint::compare(
      *left, *right, toleranceOption->count() > 0 ? std::optional(tolerance) : std::nullopt,
      values);
  if (json != "-") fmt::print("{}", checkpoint::table(comparison));
  if (const Status written = writeJson(json, checkpoint::toJson(comparison)); !written.ok()) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), written.message());
    return kExitError;
  }
  return comparison.equal() ? 0 : kExitDifferent;
}

}  // namespace colla::cli
