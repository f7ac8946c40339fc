// Calls of code that the program brought: its model, its loss, its data, its hooks. What they throw
// becomes a colla::Error that says where it happened: "step 7, slice 1: the model: …". Losing a
// peer is not the program's error, also where its code was waiting for that peer.
#pragma once

#include <memory>
#include <utility>

#include "colla/dataset.h"
#include "colla/error.h"
#include "colla/trainer.h"

namespace colla::train {

// The exception that is being handled, as a Status of one line.
Status currentError();
// Whether a peer or the group broke, and not this process.
bool isOfOthers(const Status& status);

// `where()` is called for errors alone.
template <typename Where, typename Body>
auto callUser(const Where& where, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    const Status status = currentError();
    throw Error(isOfOthers(status) ? status : status.withContext(where()));
  }
}

// A part of the task's data: never null. Errors as the task returns them.
Result<std::shared_ptr<const Dataset>> openPart(const Task& task, Part part);

}  // namespace colla::train
