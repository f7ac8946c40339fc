// How ssh is started for `colla run`, and what its failures mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"

namespace colla::launch {

struct SshOptions {
  int port = 0;                        // 0: as ssh is configured.
  std::string identity;                // File of a key; empty: as ssh is configured.
  std::vector<std::string> arguments;  // Others of the user's.
};

// kInvalidArgument for what ssh would not take.
Status checkSsh(const SshOptions& options);

// The words of an ssh that runs `command` on `host`. Never asks for anything, and gives up after
// `connectSeconds`.
std::vector<std::string> sshCommand(const std::string& host, const SshOptions& options,
                                    const std::vector<std::string>& command, int connectSeconds);

// The words that run Colla's agent once somebody is on its host: the program `colla` if it is
// there, the one among the copies of that hash (copies.h), or else the one in PATH.
std::vector<std::string> agentCommand(const std::string& colla, const std::string& copies = "");

// `text` as one word of a POSIX shell.
std::string forShell(std::string_view text);

// The last line that is not empty; empty if there is none.
std::string lastLine(const std::string& text);

// Why an ssh to `host` ended with `exitCode` before the agent spoke, and how to mend it, from what
// it said on its outputs: "there is no host of that name: …".
std::string explainSsh(const std::string& host, const SshOptions& options, int exitCode,
                       const std::string& said);

}  // namespace colla::launch
