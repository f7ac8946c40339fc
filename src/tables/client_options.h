// A worker's way to the servers of its job.
#pragma once

#include "colla/job.h"
#include "ps/client.h"

namespace colla {

inline ps::ClientOptions clientOptions(Job& job) {
  return {.transport = job.transport(),
          .rank = job.rank(),
          .workers = job.size(),
          .servers = job.servers(),
          .names = job.names(),
          .timeout = job.timeout()};
}

}  // namespace colla
