// The batch file of a Slurm job, for people to read and change.
//
// A training in it survives being requeued: it goes on from its newest checkpoint. Two minutes
// before the time limit it saves and ends, and the job goes back into the queue.
#pragma once

#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::launch {

struct BatchScript {
  int nodes = 1;
  int tasksPerNode = 1;
  int cpusPerTask = 0;  // 0: Slurm's default.
  // The values of sbatch's flags of these names; empty: left out.
  std::string jobName, time, output, error, chdir, gres, partition, account;
  std::vector<std::string> others;   // More flags of sbatch, whole: "--mem=8G".
  std::vector<std::string> modules;  // To load before anything runs.
  // One after the other. `train …` and programs get one process per task; other commands of colla
  // run once.
  std::vector<std::vector<std::string>> commands;
  std::string colla;  // The path of the command colla.
};

// The file's text. kInvalidArgument, with what is wrong, if Slurm would not take it, or if a
// command can't do what it says there.
Result<std::string> toText(const BatchScript& script);

// What the job is called where nobody says: after its first command.
std::string defaultJobName(const std::vector<std::string>& command);

// The first line after the flags: it tells a file that may be written again from a user's own.
inline constexpr std::string_view kBatchScriptMark = "# Written by `colla slurm`";

}  // namespace colla::launch
