// The commands of `colla`, one file each. A command gets the words after its name and returns the
// exit code: 0, 2 for a usage error, 1 for other failures (`colla run` has more).
#pragma once

#include "base/command_line.h"

namespace colla::cli {

// Speaks with `colla run` on a different host; not for people.
int agentCommand(const Arguments& arguments);
// 1 means that the two differ; 2 is for all errors.
int compareCommand(const Arguments& arguments);
int dataCommand(const Arguments& arguments);
// 1 means that the bits differ, or that it could not be found out.
int demoCommand(const Arguments& arguments);
// 1 means that a job can't run there.
int doctorCommand(const Arguments& arguments);
int evalCommand(const Arguments& arguments);
int exportCommand(const Arguments& arguments);
int horovodrunCommand(const Arguments& arguments);
int inspectCommand(const Arguments& arguments);
int modelsCommand(const Arguments& arguments);
int plotCommand(const Arguments& arguments);
int predictCommand(const Arguments& arguments);
int reportCommand(const Arguments& arguments);
int runCommand(const Arguments& arguments);
int runsCommand(const Arguments& arguments);
int settingsCommand(const Arguments& arguments);
int slurmCommand(const Arguments& arguments);
int studyCommand(const Arguments& arguments);
int trainCommand(const Arguments& arguments);
int versionCommand(const Arguments& arguments);

}  // namespace colla::cli
