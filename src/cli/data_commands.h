// The commands of `colla data`, one file each, as those of commands.h.
#pragma once

#include "base/command_line.h"

namespace colla::cli {

int dataGetCommand(const Arguments& arguments);
int dataInfoCommand(const Arguments& arguments);
int dataVocabCommand(const Arguments& arguments);
int dataCaptionsCommand(const Arguments& arguments);

}  // namespace colla::cli
