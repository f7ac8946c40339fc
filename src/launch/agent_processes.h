// The processes of one host, as its agent starts them: the guardian's commands on one side,
// messages for the front on the other.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "colla/status.h"
#include "launch/agent_channel.h"
#include "launch/guardian.h"

namespace colla::launch {

class AgentProcesses {
 public:
  // As the fields say: "folder", "program", "argument"s, "secret", "input" for process 0, and for
  // each process "process", then its "variable"s. The calling process has one thread.
  static Result<AgentProcesses> start(const Fields& job);

  AgentProcesses(AgentProcesses&&) = default;

  // What to wait for, then what came of it, for `channel`. `queued` bytes wait there already: with
  // too many of them, processes have to wait too. True when nothing of the job is left.
  void prepare(std::vector<pollfd>& polls, std::size_t queued);
  bool handle(const std::vector<pollfd>& polls, std::size_t at, AgentChannel& channel);

  void send(Order order);
  // For the standard input of process 0; empty: its end.
  void input(const std::string& bytes);
  // Kills what is left.
  void end();

 private:
  struct Source {
    std::uint32_t process = 0;
    std::uint8_t stream = 0;
    UniqueFd reader;
  };
  AgentProcesses(Guardian guardian, std::vector<Source> sources, UniqueFd input)
      : guardian_(std::move(guardian)), sources_(std::move(sources)), input_(std::move(input)) {}
  bool read(Source& source, AgentChannel& channel);
  void giveInput(AgentChannel& channel);

  Guardian guardian_;
  std::vector<Source> sources_;
  std::vector<Source*> polled_;
  UniqueFd input_;  // Of process 0; invalid: it gets none, or no more.
  std::string pending_;
  bool inputEnds_ = false;
};

// Which variables a process has on its host: those of the front, except those that are about the
// host and its user.
bool belongsToHost(std::string_view variable);

}  // namespace colla::launch
