#include "c10d/meet.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>

#include "base/config.h"
#include "job/environment.h"
#include "job/invitation.h"
#include "job/settings.h"

namespace colla::c10d {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr const char* kMeetingKey = "colla/meeting";

std::string hostKeyOf(int rank) { return fmt::format("colla/host/{}", rank); }
Bytes toBytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string toText(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

// The settings of a process group's job: a group may be of any size and its processes of any
// number of threads, whatever the training that it is a part of has.
JobOptions optionsFor(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
  const auto seconds = std::to_string((std::clamp(timeout, std::chrono::milliseconds(1), kLongest) +
                                       std::chrono::milliseconds(999)) /
                                      std::chrono::seconds(1));
  JobOptions options;
  options.torchVersion = TORCH_VERSION;
  options.settings = {{"collective_timeout", seconds},
                      {"start_timeout", seconds},
                      {"slices", "0"},
                      {"threads", "1"}};
  return options;
}

// Who is where; waits for everybody.
std::vector<std::string> gatherIntroductions(::c10d::Store& store, int size,
                                             std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) keys.push_back(hostKeyOf(rank));
  try {
    store.wait(keys, timeout);
  } catch (const std::exception&) {
    std::vector<int> missing;
    for (int rank = 0; rank < size; ++rank) {
      if (!store.check({keys[static_cast<std::size_t>(rank)]})) missing.push_back(rank);
    }
    if (missing.empty()) throw;
    TORCH_CHECK_WITH(DistStoreError, false,
                     fmt::format("colla: rank {} did not come within {} ms to form a group of {}",
                                 fmt::join(missing, ", rank "), timeout.count(), size));
  }
  std::vector<std::string> introductions;
  for (const std::string& key : keys) introductions.push_back(toText(store.get(key)));
  return introductions;
}

// Rank 0 tells when everybody has come; so where it does not, it knows more than the others.
void awaitMeeting(::c10d::Store& store, int size, std::chrono::milliseconds timeout) {
  try {
    store.wait({kMeetingKey}, timeout);
  } catch (const std::exception& error) {
    TORCH_CHECK_WITH(
        DistStoreError, false,
        fmt::format("colla: rank 0 did not say within {} ms where a group of {} meets: "
                    "it, or somebody it waits for, did not come ({})",
                    timeout.count(), size, error.what()));
  }
}

Result<std::unique_ptr<Job>> join(::c10d::Store& store, int rank, int size,
                                  std::chrono::milliseconds timeout) {
  const JobOptions options = optionsFor(timeout);
  if (size == 1) {
    job::Meeting alone;
    alone.place.jobId = alone.place.launcher = job::kTorchDistributed;
    alone.place.host = job::hostName();
    return Job::init(options, std::move(alone));
  }

  COLLA_TRY_ASSIGN(const Config config, job::loadConfig(options.settings));
  const char* const master = std::getenv("MASTER_ADDR");
  const job::Guest guest{.rank = rank,
                         .size = size,
                         .launcher = job::kTorchDistributed,
                         .group = "this process group",
                         .lacks = "torch's store shares no secret",
                         .towards = master == nullptr ? "" : master};
  store.set(hostKeyOf(rank), toBytes(job::introduction()));
  job::Invitation invitation;
  if (rank == 0) {
    invitation = job::invite(config, guest, gatherIntroductions(store, size, timeout));
    store.set(kMeetingKey, toBytes(invitation.text));
  } else {
    awaitMeeting(store, size, timeout);
    invitation.text = toText(store.get(kMeetingKey));
  }
  COLLA_TRY_ASSIGN(job::Meeting meeting, job::accept(config, guest, std::move(invitation)));
  auto job = Job::init(options, std::move(meeting));
  // A later group may have the same prefix: it must not meet here.
  if (rank == 0 && job.ok()) {
    store.deleteKey(kMeetingKey);
    for (int other = 0; other < size; ++other) store.deleteKey(hostKeyOf(other));
  }
  return job;
}

}  // namespace

std::unique_ptr<Job> meet(::c10d::Store& store, int rank, int size,
                          std::chrono::milliseconds timeout) {
  auto job = join(store, rank, size, timeout);
  TORCH_CHECK_WITH(DistBackendError, job.ok(),
                   fmt::format("colla: rank {} of {}: {}", rank, size, toString(job.status())));
  return *std::move(job);
}

}  // namespace colla::c10d
