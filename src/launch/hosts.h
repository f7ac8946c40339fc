// The hosts of a job that has several, as the front sees them: an ssh with an agent behind it
// (agent.h) on each. After start() they are to the front what one guardian is on a single host.
//
// A guardian on this host has the ssh processes for children. So whoever is killed, and whatever
// connection is lost: the agent notices, and ends what there is on its host.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launch/agent_channel.h"
#include "launch/allocation.h"
#include "launch/guardian.h"
#include "launch/host_facts.h"
#include "launch/layout.h"
#include "launch/output.h"
#include "launch/ssh.h"

namespace colla::launch {

// Whether a host of that name is this one. May look it up.
bool isThisHost(const std::string& name);

// The command beside this program, which may be `colla` itself, or else the one in PATH.
std::string collaProgram();

class Hosts : public Guards {
 public:
  struct Options {
    SshOptions ssh;
    std::string colla = "colla";  // The program on this host, and on others if it is there too.
    std::string copies;           // The hash of those that were sent to hosts; empty: none were.
    int connectSeconds = 10;
  };
  struct Host {
    std::string name;
    bool here = false;                  // This one: no ssh is needed.
    std::optional<AllocatedNode> node;  // Reached by srun.
  };

  // What one host has answered, and why it is lost if it is.
  struct Answers {
    std::optional<HostFacts> facts;
    std::optional<Fields> checked;
    std::optional<Fields> reached;
    std::optional<Fields> measured;
    std::string lost;  // Empty: it is not.
  };

  // The calling process has one thread, and is a reaper.
  static Result<std::unique_ptr<Hosts>> connect(const std::vector<Host>& hosts,
                                                const Options& options, const Inherited& inherited);
  ~Hosts() override;

  std::size_t size() const { return links_.size(); }
  const std::string& name(std::size_t host) const { return links_[host].name; }
  bool isHere(std::size_t host) const { return links_[host].here; }
  // What is said to it goes over srun, which does not encrypt.
  bool isOpen(std::size_t host) const { return links_[host].bySrun; }
  const Answers& answers(std::size_t host) const { return links_[host].answers; }
  void forgetMeasured(std::size_t host) { links_[host].answers.measured.reset(); }
  void say(std::size_t host, Say kind, const Fields& fields);
  // One round of waiting for what the hosts say, until `until` at most. False when `signals` has
  // one.
  bool waitOnce(int signals, TimePoint until);

  // `processes` (by their numbers in the job) start on `host`; what they say goes to `output`.
  void start(std::size_t host, const Fields& job, std::vector<int> processes);
  void setOutput(Output* output) { output_ = output; }
  // Worker 0's standard input comes from this descriptor.
  void setInput(UniqueFd input) { input_ = std::move(input); }

  // Hosts that have not been heard of for a while, for messages: "host b for 3 s".
  std::string silence() const;

  void send(Order order) override;
  void prepare(std::vector<pollfd>& polls) override;
  bool handle(const std::vector<pollfd>& polls, std::size_t at, TimePoint now) override;
  TimePoint nextDeadline() const override;
  Result<Event> next() override;
  void wait() override;
  void pause() override;
  std::chrono::milliseconds endLimit() const override { return std::chrono::seconds(4); }

 private:
  struct Link {
    std::string name;
    bool here = false;
    bool bySrun = false;
    AgentChannel channel;
    UniqueFd errors;   // What ssh or srun says on standard error,
    std::string said;  // so far.
    TimePoint heard;
    TimePoint endOfFile = TimePoint::max();
    std::optional<int> exitCode;  // Of that.
    Answers answers;
    bool ended = false;  // Nothing of the job is left there.
    std::vector<int> processes;
    std::set<int> running;
  };
  Hosts(std::vector<Link> links, Guardian guardian, SshOptions ssh);
  void hear(Link& link, TimePoint now);
  void take(Link& link, const AgentChannel::Message& message, TimePoint now);
  void takeEvent(Link& link, const Event& event);
  void readErrors(Link& link);
  void hearGuardian();
  void readInput();
  void lose(Link& link, const std::string& why);
  static std::string_view wordFor(const Link& link);
  std::string whyLost(const Link& link) const;
  void endIfDone();

  std::vector<Link> links_;
  Guardian guardian_;
  SshOptions ssh_;
  Output* output_ = nullptr;
  UniqueFd input_;
  bool inputTaken_ = true;  // What was sent of it: more may follow.
  std::deque<Event> events_;
  TimePoint beat_;
  int left_ = 0;  // Processes that could not be killed.
  bool ending_ = false;
  bool guardianEnds_ = false;
  bool guardianLost_ = false;
};

// How to reach the host of that name: without anything, by srun, or else by ssh.
Hosts::Host hostOf(const std::string& name, const std::vector<AllocatedNode>& allocation);

}  // namespace colla::launch
