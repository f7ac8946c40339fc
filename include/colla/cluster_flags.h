// TensorFlow's flags for a job whose processes are started one by one, in any program:
//
//   int main(int argc, char** argv) {
//     const colla::Status place = colla::takeClusterFlags(argc, argv);
//     if (!place.ok()) return 2;
//     const auto job = colla::Job::init();
//     return job.ok() ? 0 : 1;
//   }
//
//   ./program --ps_hosts a:2222 --worker_hosts a:2223,b:2222 --job_name worker --task_index 1
//
// Programs with a Trainer know them already.
#pragma once

#include "colla/status.h"

namespace colla {

// Takes --ps_hosts, --worker_hosts, --job_name and --task_index out of a program's arguments and
// puts what they say into the environment, where Job::init() finds it. All other arguments stay, in
// their order; `argv` ends with a null pointer as before. To be called while the process has one
// thread. kInvalidArgument for flags that make no sense: nothing is taken then.
Status takeClusterFlags(int& argc, char** argv);

}  // namespace colla
