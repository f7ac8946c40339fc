#include "c10d/meet.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/config.h"
#include "job/connect.h"
#include "job/environment.h"
#include "job/open_store.h"
#include "job/store_identity.h"
#include "rendezvous/host_key.h"
#include "rendezvous/secret.h"
#include "transport/net/address.h"

namespace colla::c10d {
namespace {

using Bytes = std::vector<std::uint8_t>;
namespace net = transport::net;

constexpr const char* kMeetingKey = "colla/meeting";
constexpr std::string_view kLauncher = "torch.distributed";

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

// What rank 0 tells everybody: a line each, the last with the number of every rank's host.
struct Plan {
  std::string error;  // Why there will be no job; nothing else counts then.
  std::string jobId;
  std::string store;
  std::string secretHex;  // Only for a wire that is trusted anyway.
  std::vector<int> hosts;

  std::string text() const {
    return fmt::format("{}\n{}\n{}\n{}\n{}\n", error, jobId, store, secretHex,
                       fmt::join(hosts, " "));
  }
  static Plan parse(const std::string& text) {
    Plan plan;
    std::istringstream lines(text);
    for (std::string* line : {&plan.error, &plan.jobId, &plan.store, &plan.secretHex}) {
      std::getline(lines, *line);
    }
    for (int host = 0; lines >> host;) plan.hosts.push_back(host);
    return plan;
  }
};

struct Told {
  std::vector<int> hosts;  // Of every rank, numbered in the order in which they first appear.
  std::vector<std::string> names;  // What those hosts are called.
};

// Who is where; waits for everybody.
Told gatherHosts(::c10d::Store& store, int size, std::chrono::milliseconds timeout) {
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
  Told told;
  std::vector<std::string> known;
  for (const std::string& key : keys) {
    const std::string text = toText(store.get(key));
    const auto end = text.find('\n');
    const auto it = std::ranges::find(known, text.substr(0, end));
    told.hosts.push_back(static_cast<int>(it - known.begin()));
    if (it == known.end()) {
      known.push_back(text.substr(0, end));
      told.names.push_back(text.substr(end + 1));
    }
  }
  return told;
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

std::string secretOfCollaRun() {
  const char* const secret = std::getenv("COLLA_SECRET");
  return secret == nullptr ? "" : secret;
}

// Where the other hosts reach this one.
Result<std::string> ownAddress(const Config& config, const std::string& otherHost) {
  const std::string interface = config.text("interface");
  if (!interface.empty()) return net::interfaceAddress(interface);
  const char* const master = std::getenv("MASTER_ADDR");
  const std::string towards = master == nullptr ? otherHost : master;
  return net::addressTowards(net::withPort(towards, 1));
}

// Rank 0's part: chooses, and serves the store. The others meet there.
Result<Plan> plan(const Config& config, Told told,
                  std::unique_ptr<rendezvous::StoreServer>& server) {
  Plan plan;
  plan.jobId = "c10d-" + rendezvous::secretToHex(rendezvous::makeSecret()).substr(0, 32);
  plan.hosts = std::move(told.hosts);
  COLLA_TRY_ASSIGN(
      std::string secret,
      rendezvous::loadSecret(secretOfCollaRun().empty() ? nullptr : secretOfCollaRun().c_str(),
                             config.text("secret_file")));
  // The user trusts the network, and so torch's store.
  if (secret.empty() && config.text("transport") == "tcp-plain") {
    secret = rendezvous::makeSecret();
    plan.secretHex = rendezvous::secretToHex(secret);
  }
  if (told.names.size() == 1) {
    plan.store = job::localStore(plan.jobId);
    return plan;
  }
  if (secret.empty()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("this process group spans {} hosts ({}), and torch's store shares no "
                        "secret: {}, or say with COLLA_TRANSPORT=tcp-plain that the network "
                        "between them is trusted",
                        told.names.size(), fmt::join(told.names, ", "), job::kSecretHint)};
  }
  COLLA_TRY_ASSIGN(const std::string address, ownAddress(config, told.names[1]));
  COLLA_TRY_ASSIGN(server, rendezvous::StoreServer::start({.address = net::withPort(address, 0),
                                                           .jobId = plan.jobId,
                                                           .secret = secret,
                                                           .identity = job::storeIdentity()}));
  plan.store = server->address();
  return plan;
}

job::Place placeOf(const Config& config, const Plan& plan, int rank) {
  job::Place place;
  place.rank = rank;
  place.size = static_cast<int>(plan.hosts.size());
  place.localSize = 0;
  for (int other = 0; other < place.size; ++other) {
    if (plan.hosts[static_cast<std::size_t>(other)] != plan.hosts[static_cast<std::size_t>(rank)]) {
      continue;
    }
    if (other < rank) ++place.localRank;
    ++place.localSize;
  }
  place.jobId = plan.jobId;
  place.host = job::hostName();
  place.store = plan.store;
  place.servesStore = rank == 0;
  place.launcher = kLauncher;
  place.secretHex = plan.secretHex.empty() ? secretOfCollaRun() : plan.secretHex;
  place.secretFile = config.text("secret_file");
  return place;
}

Result<std::unique_ptr<Job>> join(::c10d::Store& store, int rank, int size,
                                  std::chrono::milliseconds timeout) {
  const JobOptions options = optionsFor(timeout);
  job::Meeting meeting;
  if (size == 1) {
    meeting.place.jobId = meeting.place.launcher = kLauncher;
    meeting.place.host = job::hostName();
    return Job::init(options, std::move(meeting));
  }

  COLLA_TRY_ASSIGN(const Config config, Config::fromEnvironment(options.settings));
  store.set(hostKeyOf(rank), toBytes(rendezvous::hostKey() + "\n" + job::hostName()));
  Plan agreed;
  if (rank == 0) {
    auto made = plan(config, gatherHosts(store, size, timeout), meeting.server);
    if (made.ok()) {
      agreed = *std::move(made);
    } else {
      agreed.error = made.status().message();
    }
    store.set(kMeetingKey, toBytes(agreed.text()));
  } else {
    awaitMeeting(store, size, timeout);
    agreed = Plan::parse(toText(store.get(kMeetingKey)));
  }
  if (!agreed.error.empty()) return {StatusCode::kInvalidArgument, agreed.error};
  meeting.place = placeOf(config, agreed, rank);
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
