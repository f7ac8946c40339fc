// The limit of an encrypted network: two processes that send each other a buffer at the same time,
// sealed in records by OpenSSL (AES-128-GCM, as TLS 1.3 does it here), with no library around it.
// An allreduce of two ranks sends as much, and also adds.
//
// `prepare` is followed by OPERATION ELEMENTS, of which the operation is ignored.
#pragma once

#include <memory>
#include <string>

#include "bench/agent.h"

namespace colla::bench {

// Rank 0 listens at `address` ("10.78.0.1:4000"), rank 1 connects.
std::unique_ptr<Workload> makeSealedLoop(int rank, const std::string& address);

}  // namespace colla::bench
