// The life of a process that is a parameter server.
//
//   auto job = colla::Job::init({.serves = true});
//   if (!job.ok()) return job.status();
//   if ((*job)->role() == colla::Role::kServer) return colla::serve(**job);
//
// `colla run -np 4 --ps 1 -- PROGRAM` starts four workers and one server of the same program. The
// workers say what the server holds: a Trainer's parameters, or Tables (colla/table.h).
#pragma once

#include "colla/job.h"
#include "colla/status.h"

namespace colla {

// Serves until every worker has left, through all epochs of the job. Returns an error if the job
// could not go on, and kInvalidArgument in a process that is a worker. One thread calls it; the
// setting `server_threads` says how many threads compute.
Status serve(Job& job);

}  // namespace colla
