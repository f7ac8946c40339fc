// A replica as a checkpoint, and back.
#pragma once

#include "checkpoint/loaded.h"
#include "checkpoint/saver.h"
#include "colla/group.h"
#include "train/replica.h"

namespace colla::train {

// Starts to save; the replica may go on when it returns. Throws colla::Error.
void saveState(checkpoint::Saver& saver, const checkpoint::Manifest& manifest, Replica& replica);

// Everybody's parameters and buffers become what rank 0 has `loaded`; the others give null. Throws
// colla::Error when the model does not fit.
void restoreModel(Replica& replica, const checkpoint::Loaded* loaded);
// The same, and the state of the optimizer.
void restoreState(Group& group, Replica& replica, const checkpoint::Loaded* loaded);

}  // namespace colla::train
