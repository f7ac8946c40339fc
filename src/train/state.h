// A replica as a checkpoint, and back.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/loaded.h"
#include "checkpoint/saver.h"
#include "colla/group.h"
#include "train/replica.h"

namespace colla::train {

// What a save ends with instead of a checkpoint when a tensor with this name is not finite.
using Refusal = std::function<Status(const std::string& tensor)>;

// Starts to save; the replica may go on when it returns. With a `refusal`, what servers hold is
// looked through before it is written. Throws colla::Error.
void saveState(checkpoint::Saver& saver, const checkpoint::Manifest& manifest, Replica& replica,
               const Refusal& refusal);

// Everybody's parameters and buffers become what rank 0 has `loaded`; the others give null. Throws
// colla::Error when the model does not fit.
void restoreModel(Replica& replica, const checkpoint::Loaded* loaded);
// The same, and the state of the optimizer.
void restoreState(Group& group, Replica& replica, const checkpoint::Loaded* loaded);

}  // namespace colla::train
