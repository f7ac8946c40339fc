// `--copy`: Colla's own files and the program, for hosts that lack them. They go there as one
// archive, into a folder of the user's cache that is named by its hash: what is there already is
// not sent again. libtorch and Python's packages are not among them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "launch/hosts.h"
#include "launch/preflight.h"

namespace colla::launch {

class Copies {
 public:
  // Of the command `colla`, what lies beside it, and of the program in `command`: itself, or the
  // script that an interpreter is given.
  static Result<Copies> of(const std::string& colla, const std::string& program,
                           const std::vector<std::string>& command, std::string_view path);

  const std::string& hash() const { return hash_; }

  // Brings them to those of `hosts` that lack them, at the same time; the signal's number where
  // `signals` has one first, otherwise 0. A host that can't be reached is not complained of: it
  // will be when it is to start something. The calling process must have one thread.
  Result<int> send(const std::vector<Hosts::Host>& hosts, const SshOptions& ssh,
                   const Inherited& inherited, int signals, Deadline deadline,
                   std::vector<Complaint>& complaints) const;

  // On a host: where the copy of `file` is, or would be.
  static std::string placeOf(const std::string& hash, const std::string& file);

 private:
  Status add(const std::string& path);
  std::string script() const;

  std::string hash_;
  std::string archive_;
  std::vector<std::string> files_;  // Their paths here.
};

// One entry of a tar archive (ustar), as ready to be executed as `mode` says. Pure.
std::string tarEntry(std::string_view name, std::string_view content, unsigned mode);

}  // namespace colla::launch
