// The flags that take a job to other hosts, the same for every command and program that starts
// workers.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "colla/status.h"
#include "launch/run.h"

namespace colla::launch {

class HostFlags {
 public:
  // `app` must outlive it, and this must stay where it is: the flags point here.
  explicit HostFlags(CLI::App& app);
  HostFlags(const HostFlags&) = delete;
  HostFlags& operator=(const HostFlags&) = delete;

  // After parse(). Whether there are hosts to start processes on.
  bool given() const { return !hosts_.empty() || !hostFile_.empty(); }
  // Fills in what they say; where `options.workers` is 0, as many as there are slots.
  // kInvalidArgument for what makes no sense.
  Status applyTo(RunOptions& options) const;
  // The same flags for a command that this one starts.
  std::vector<std::string> words() const;

 private:
  std::string hosts_;
  std::string hostFile_;
  std::string serverHosts_;
  std::string interfaces_;
  std::string outputDir_;
  bool timestamps_ = false;
  bool copy_ = false;
  SshOptions ssh_;
};

}  // namespace colla::launch
