// Whether what ranks brought under one name fits together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "colla/status.h"
#include "named/announcement.h"

namespace colla::named {

struct Brought {
  int rank;
  const Announcement* what;
};

// Fine, or kMismatch with what differs and who brought what; kInvalidArgument for what nobody could
// carry out (a scalar to gather). `all` is not empty, in the order of ranks.
Status agreement(std::span<const Brought> all);

// `"weight"`, and its set where that is not all ranks.
std::string describe(const Announcement& what);
// "rank 1", "ranks 0, 2", the first few of many.
std::string ranksText(std::span<const int> ranks);

}  // namespace colla::named
