// A program that starts its own workers: `./train --np 4` with no launcher in front.
//
//   int main(int argc, char** argv) {
//     … parse flags …
//     const auto started = launch::startWorkers({.workers = np, .config = config});
//     if (!started.ok()) …
//     if (started->has_value()) return **started;  // This was the front: the job is over.
//     … Job::init() …                              // This is a worker, or alone.
//
// The first process becomes the front: it runs the same program with the same arguments as N
// workers, and has no other work. All that `colla run` promises holds (launch/run.h), with these
// differences: worker 0's standard output is passed on as it is, and is a terminal if the front's
// is; after a first Ctrl-C the workers may take the time that they need to save and leave, and if
// they do with exit code 0 or 130 (128 + SIGINT), worker 0's is the front's. Any other code is a
// failure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "colla/status.h"
#include "job/environment.h"
#include "launch/run.h"

namespace colla::launch {

struct StartOptions {
  int workers = 0;  // 0: as many as a launcher has started; without one, a single one.
  int servers = 0;
  int spareWorkers = 0;  // So many, other than worker 0, may fail and the job goes on.
  // Where they run and how their output is shown (HostFlags::applyTo).
  RunOptions where = {};
  // The program is one of Colla's, or has the same libtorch.
  bool ownTorch = false;
  // From Config::load(), flags included: what was set there reaches the environment of the workers,
  // or of this process if it goes on itself, so that Job::init() finds it.
  Config config;
};

// In a process that no launcher started and that wants company: runs the whole job, and returns
// the exit code to end with. Otherwise nothing: this process is a worker or a server, go on.
//
// To be called early in main(), while the process has one thread and nothing to lose: the front
// stays as it is at this point. kInvalidArgument if there is a launcher and it started another
// number of processes than wanted; kUnsupported if there are other threads.
Result<std::optional<int>> startWorkers(const StartOptions& options);

// In a process that a front of its own program has started: the front has the last word.
bool startedByFront();
// This process's command line, as the kernel keeps it: parsers change what main() was given.
Result<std::vector<std::string>> argumentsOfSelf();
std::ptrdiff_t threadsOfSelf();

// Whether a process at `place` has to become the front.
Result<bool> becomesFront(const job::Place& place, const StartOptions& options);

}  // namespace colla::launch
