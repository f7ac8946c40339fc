// How processes that somebody else started become a job: those of torch.distributed, of Spark, of a
// pool of workers. They know their ranks and can send each other texts.
//
//   every rank   introduction()  its text goes to rank 0
//   rank 0       invite()        its text goes to every rank
//   every rank   accept()        then Job::init(options, meeting)
//
// Whatever carries the texts is trusted no further than it must be. On one host the processes meet
// at a Unix socket that checks the user. Between hosts they need a secret that did not travel with
// the texts, unless MUNGE sealed it (in a Slurm allocation), or the explicit choice of a wire that
// is trusted as it is (COLLA_TRANSPORT=tcp-plain).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "colla/status.h"
#include "job/open_store.h"

namespace colla::job {

// Launchers of such jobs.
inline constexpr std::string_view kTorchDistributed = "torch.distributed";
inline constexpr std::string_view kMeeting = "meeting";

// One process that is to meet the others.
struct Guest {
  int rank = 0;
  int size = 1;
  std::string_view launcher = kMeeting;
  // The job's secret; empty: that of COLLA_SECRET or the setting `secret_file`, if any.
  std::string secretHex = {};
  // For the refusal of a job that spans hosts and has no secret: "GROUP spans 2 hosts (a, b), and
  // LACKS: …".
  std::string_view group = "this job";
  std::string_view lacks = "the meeting has no secret";
  // A host that is known to reach the others; empty: one of them.
  std::string towards = {};
};

// The host of this process.
std::string introduction();

struct Invitation {
  std::string text;
  // Serves the store of a job that spans hosts; null elsewhere. It stays with rank 0.
  std::unique_ptr<rendezvous::StoreServer> server = nullptr;
};

// Rank 0 chooses where to meet. `introductions` are those of all ranks, in order. What goes wrong
// is in the text, so that accept() returns it on every rank.
Invitation invite(const Config& config, const Guest& guest,
                  const std::vector<std::string>& introductions);

// kInvalidArgument with the reason if rank 0 could not invite, or if the text is not an invitation
// for so many ranks.
Result<Meeting> accept(const Config& config, const Guest& guest, Invitation invitation);

}  // namespace colla::job
