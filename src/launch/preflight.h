// What `colla run` finds out about the hosts of a job before it starts anything there: whether each
// can be reached, has the same Colla, torch and CPU as the others, the program and room for it, and
// reaches the other hosts. Pure, but for Preflight itself.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "launch/host_facts.h"
#include "launch/hosts.h"

namespace colla::launch {

struct Complaint {
  std::string host;
  std::string what;
};

enum class TorchUse { kNone, kOwn, kPython };

// What keeps hosts with these facts from being in one job, in the order of the hosts.
std::vector<Complaint> compareHosts(const std::vector<std::string>& names,
                                    const std::vector<HostFacts>& facts, TorchUse torch);

// "host b: there is no Colla: …", one line each.
std::string toText(const std::vector<Complaint>& complaints, std::string_view speaker);

// Asks all hosts at the same time. Each step ends when all have answered, or with complaints:
// hosts that are lost or have not answered at the deadline are among them. kCancelled once
// `signals` has one.
class Preflight {
 public:
  Preflight(Hosts& hosts, int signals, Deadline deadline)
      : hosts_(hosts), signals_(signals), deadline_(deadline) {}

  // What the hosts are, and whether the job finds there what `job` says that it needs.
  Status check(const Fields& job, TorchUse torch);
  // Whether each host reaches `store[i]` and the others.
  Status reach(const std::vector<std::string>& store);

  const std::vector<Complaint>& complaints() const { return complaints_; }

 private:
  Status await(const std::optional<Fields> Hosts::Answers::*answer, std::string_view what,
               bool alsoHere);

  Hosts& hosts_;
  int signals_;
  Deadline deadline_;
  std::vector<Complaint> complaints_;
};

}  // namespace colla::launch
