// Where a worker of a job finds its servers.
#pragma once

#include "colla/job.h"
#include "ps/client.h"

namespace colla::ps {

inline ClientOptions clientOptions(Job& job) {
  return {.transport = job.transport(),
          .rank = job.rank(),
          .workers = job.size(),
          .servers = job.servers(),
          .names = job.names(),
          .timeout = job.timeout()};
}

}  // namespace colla::ps
