// A worker's model and its exchange as a checkpoint, and back.
#pragma once

#include "checkpoint/loaded.h"
#include "checkpoint/saver.h"
#include "colla/group.h"
#include "train/replica.h"

namespace colla::train {

// Starts to save; training may go on when it returns. Throws colla::Error.
// `best`: it becomes the run's best one.
void saveState(checkpoint::Saver& saver, const checkpoint::Manifest& manifest,
               const Replica& replica, const ExchangeState& state, bool best = false);

// Parameters and buffers become what was loaded. Throws colla::Error when the model does not fit.
void restoreModel(Replica& replica, const checkpoint::Loaded& loaded);

// Rank 0's parameters and buffers replace those of every rank.
void broadcastModel(Group& group, Replica& replica);

}  // namespace colla::train
