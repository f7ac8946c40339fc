// What a request is to the others, once it has been found sound.
#pragma once

#include <span>

#include "colla/status.h"
#include "named/announcement.h"
#include "named/request.h"

namespace colla::named {

// For a rank that is one of `members`. kInvalidArgument, or kUnsupported, with what is wrong and
// what to do: everything that this rank can know by itself. What does not concern the kind of
// operation is not announced.
Result<Announcement> announce(const Request& request, std::span<const int> members);

}  // namespace colla::named
