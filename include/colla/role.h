// What a process does in a job.
#pragma once

namespace colla {

// A worker computes gradients; a server holds parameters ("ps" on the command line).
enum class Role { kWorker, kServer };

}  // namespace colla
