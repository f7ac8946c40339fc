#include "job/invitation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "job/environment.h"
#include "job/store_identity.h"
#include "rendezvous/host_key.h"
#include "rendezvous/secret.h"
#include "rendezvous/secret_munge.h"
#include "transport/net/address.h"
#include "transport/transports.h"

namespace colla::job {
namespace {

namespace net = transport::net;

constexpr std::string_view kHeading = "an invitation of Colla's";

// What an invitation says: a line each after the heading, the last with the number of every rank's
// host.
struct MeetingPlan {
  std::string error;  // Why there will be no job; nothing else counts then.
  std::string jobId;
  std::string store;
  std::string secretHex;   // Only for a wire that is trusted anyway.
  std::string credential;  // MUNGE's, with the secret, in a Slurm allocation.
  std::vector<int> hosts;

  std::string text() const {
    return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n", kHeading, error, jobId, store, secretHex,
                       credential, fmt::join(hosts, " "));
  }
  // Without hosts if it is something else.
  static MeetingPlan parse(const std::string& text) {
    MeetingPlan plan;
    std::istringstream lines(text);
    std::string heading;
    if (!std::getline(lines, heading) || heading != kHeading) return plan;
    for (std::string* line :
         {&plan.error, &plan.jobId, &plan.store, &plan.secretHex, &plan.credential}) {
      std::getline(lines, *line);
    }
    for (int host = 0; lines >> host;) plan.hosts.push_back(host);
    return plan;
  }
};

struct Hosts {
  std::vector<int> ofRanks;  // Numbered in the order in which they first appear.
  std::vector<std::string> names;
};

Hosts hostsOf(const std::vector<std::string>& introductions) {
  Hosts hosts;
  std::vector<std::string> known;
  for (const std::string& text : introductions) {
    const auto end = text.find('\n');
    const auto it = std::ranges::find(known, text.substr(0, end));
    hosts.ofRanks.push_back(static_cast<int>(it - known.begin()));
    if (it != known.end()) continue;
    known.push_back(text.substr(0, end));
    hosts.names.push_back(end == std::string::npos ? "" : text.substr(end + 1));
  }
  return hosts;
}

std::string secretOf(const Guest& guest) {
  if (!guest.secretHex.empty()) return guest.secretHex;
  return givenSecret([](const char* name) { return std::getenv(name); });
}

// Where the other hosts reach this one.
Result<std::string> ownAddress(const Config& config, const std::string& towards) {
  const std::string interface = config.text("interface");
  if (!interface.empty()) return net::interfaceAddress(interface);
  return net::addressTowards(net::withPort(towards, 1));
}

Result<MeetingPlan> planFor(const Config& config, const Guest& guest, Hosts hosts,
                            std::unique_ptr<rendezvous::StoreServer>& server) {
  MeetingPlan plan;
  plan.jobId = "met-" + rendezvous::secretToHex(rendezvous::makeSecret()).substr(0, 32);
  plan.hosts = std::move(hosts.ofRanks);
  const std::string known = secretOf(guest);
  COLLA_TRY_ASSIGN(
      std::string secret,
      rendezvous::loadSecret(known.empty() ? nullptr : known.c_str(), config.text("secret_file")));
  // The user trusts the network, and so what carries the invitation.
  const transport::TransportRow* const chosen = transport::findTransport(config.text("transport"));
  if (secret.empty() && chosen != nullptr && chosen->trustsNetwork()) {
    secret = rendezvous::makeSecret();
    plan.secretHex = rendezvous::secretToHex(secret);
  }
  if (hosts.names.size() == 1) {
    plan.store = localStore(plan.jobId);
    return plan;
  }
  if (secret.empty() && std::getenv("SLURM_JOB_ID") != nullptr) {
    const std::string made = rendezvous::makeSecret();
    auto credential = rendezvous::mungeSeal(rendezvous::secretToHex(made));
    if (credential.ok()) {
      plan.credential = *std::move(credential);
      secret = made;
    }
  }
  if (secret.empty()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} spans {} hosts ({}), and {}: {}, or say with COLLA_TRANSPORT={} that "
                        "the network between them is trusted",
                        guest.group, hosts.names.size(), fmt::join(hosts.names, ", "), guest.lacks,
                        kSecretHint, transport::trustingTransports())};
  }
  COLLA_TRY_ASSIGN(const std::string address,
                   ownAddress(config, guest.towards.empty() ? hosts.names[1] : guest.towards));
  COLLA_TRY_ASSIGN(server, rendezvous::StoreServer::start({.address = net::withPort(address, 0),
                                                           .jobId = plan.jobId,
                                                           .secret = secret,
                                                           .identity = storeIdentity()}));
  plan.store = server->address();
  return plan;
}

}  // namespace

std::string introduction() { return rendezvous::hostKey() + "\n" + hostName(); }

Invitation invite(const Config& config, const Guest& guest,
                  const std::vector<std::string>& introductions) {
  Invitation invitation;
  MeetingPlan plan;
  if (introductions.size() != static_cast<std::size_t>(guest.size)) {
    plan.error = fmt::format("{} of {} ranks has {} introductions", guest.group, guest.size,
                             introductions.size());
  } else if (auto made = planFor(config, guest, hostsOf(introductions), invitation.server);
             made.ok()) {
    plan = *std::move(made);
  } else {
    plan.error = made.status().message();
  }
  invitation.text = plan.text();
  return invitation;
}

Result<Meeting> accept(const Config& config, const Guest& guest, Invitation invitation) {
  const MeetingPlan plan = MeetingPlan::parse(invitation.text);
  if (!plan.error.empty()) return {StatusCode::kInvalidArgument, plan.error};
  if (guest.rank < 0 || plan.hosts.size() != static_cast<std::size_t>(guest.size) ||
      guest.rank >= guest.size) {
    return {StatusCode::kInvalidArgument,
            fmt::format("rank {} of {} got a text that is not rank 0's invitation", guest.rank,
                        guest.size)};
  }
  Meeting meeting{.place = {}, .server = std::move(invitation.server)};
  Place& place = meeting.place;
  place.rank = guest.rank;
  place.size = guest.size;
  place.localSize = 0;
  const auto hostOf = [&](int rank) { return plan.hosts[static_cast<std::size_t>(rank)]; };
  for (int other = 0; other < place.size; ++other) {
    if (hostOf(other) != hostOf(guest.rank)) continue;
    if (other < guest.rank) ++place.localRank;
    ++place.localSize;
  }
  place.jobId = plan.jobId;
  place.host = hostName();
  place.store = plan.store;
  place.servesStore = guest.rank == 0;
  place.launcher = guest.launcher;
  place.secretHex = plan.secretHex.empty() ? secretOf(guest) : plan.secretHex;
  if (!plan.credential.empty()) {
    COLLA_TRY_ASSIGN(place.secretHex,
                     rendezvous::mungeOpen(plan.credential, rendezvous::Replay::kAccepted));
  }
  place.secretFile = config.text("secret_file");
  return meeting;
}

}  // namespace colla::job
