// What a backend needs to know to take its place in a job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/spin.h"

namespace colla::transport {

// One process of the job.
struct Peer {
  std::string name;       // For messages: "rank 2 on host b", "ps 0 on host a".
  std::string address;    // Where its listener is, in the backend's own form.
  std::string host = "";  // Where it runs, for metrics.
};

// What two processes must have in common before they exchange a single message: a job of mixed
// builds or settings would train something, but not what was asked for.
struct Identity {
  std::string colla;     // Colla's version.
  std::string torch;     // libtorch's version; empty for a program without it.
  std::string cpu;       // The features that numerical kernels choose by.
  std::string settings;  // Config::sharedText().
};

struct Options {
  int self = 0;
  std::vector<Peer> peers;  // All processes of the job, this one included.
  std::uint32_t epoch = 0;  // Of membership: a message from another epoch is refused.
  std::string jobId;        // Tells this job's processes from another job's.
  std::string secret;       // The job's key material, at least 32 bytes; empty: none.
  Identity identity;
  Spin spin;
  int connections = 1;  // TCP connections per pair.
  // UCX leaves Ethernet out: "auto" has found that all hosts have RDMA.
  bool rdmaAlone = false;
};

}  // namespace colla::transport
