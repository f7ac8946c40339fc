// What a trained model says about every sample of a data set, as text.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "colla/trainer.h"

namespace colla::models {

enum class PredictionFormat : std::uint8_t { kCsv, kJsonLines };

struct PredictionOptions {
  // DIR, DIR@STEP or the directory of one step, as checkpoint::Source takes it. Empty: the model as
  // it is made, with first weights from a file.
  std::string checkpoint;
  Part part = Part::kTest;
  std::int64_t batch = 32;  // Samples at once.
  PredictionFormat format = PredictionFormat::kCsv;
};

// Writes one line per sample, in the order of the data set: its number, then what the model tells
// (models/predicts.h). In CSV several numbers are columns name_0, name_1, …; in JSON an array.
// kMismatch where the checkpoint is not of this task's model.
Status writePredictions(const Task& task, const PredictionOptions& options, std::FILE* out);

}  // namespace colla::models
