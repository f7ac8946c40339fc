#include "job/handout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "base/thread_annotations.h"
#include "job/credential_door.h"
#include "job/process_manager.h"
#include "job/store_identity.h"
#include "rendezvous/secret.h"
#include "rendezvous/secret_munge.h"
#include "rendezvous/secret_seal.h"
#include "transport/net/address.h"

namespace colla::job {
namespace {

namespace net = transport::net;

// What rank 0 hands out: a line for each.
struct Handed {
  std::string jobId;
  std::string store;
  std::string secretHex;

  std::string text() const { return fmt::format("{}\n{}\n{}\n", jobId, store, secretHex); }
  static std::optional<Handed> parse(const std::string& text) {
    Handed handed;
    std::istringstream lines(text);
    for (std::string* line : {&handed.jobId, &handed.store, &handed.secretHex}) {
      if (!std::getline(lines, *line)) return std::nullopt;
    }
    return handed;
  }
};

// Where nothing carries the secret, a file can.
Status withHint(const Status& status, const Place& place) {
  const bool lost = status.code() == StatusCode::kTimeout || status.code() == StatusCode::kPeerLost;
  if (lost || place.localSize == place.size || !place.secretFile.empty()) return status;
  return {status.code(), fmt::format("this job spans hosts and has no secret: {}; {}",
                                     status.message(), kSecretHint)};
}

// Rank 0's part: a store at `address`, with a new secret unless a file has one.
Result<Handed> makeStore(Meeting& meeting, const std::string& address) {
  const Place& place = meeting.place;
  COLLA_TRY_ASSIGN(std::string secret, rendezvous::loadSecret(nullptr, place.secretFile));
  const bool made = secret.empty();
  if (made) secret = rendezvous::makeSecret();
  COLLA_TRY_ASSIGN(meeting.server, rendezvous::StoreServer::start({.address = address,
                                                                   .jobId = place.jobId,
                                                                   .secret = secret,
                                                                   .identity = storeIdentity()}));
  return Handed{.jobId = place.jobId,
                .store = meeting.server->address(),
                .secretHex = made ? rendezvous::secretToHex(secret) : ""};
}

Result<Handed> byMunge(Meeting& meeting, std::shared_ptr<CredentialDoor>& door, Deadline deadline) {
  const Place& place = meeting.place;
  // A host without MUNGE says so at once, rather than wait for one that has no credentials.
  COLLA_TRY(rendezvous::mungeSeal("").status());
  if (place.rank == 0) {
    COLLA_TRY(checkReachable(place));
    COLLA_TRY_ASSIGN(const net::Address address, net::Address::parse(place.store));
    COLLA_TRY_ASSIGN(Handed handed, makeStore(meeting, net::withPort(address.host(), 0)));
    COLLA_TRY_ASSIGN(door, CredentialDoor::open(address, handed.text()));
    return handed;
  }
  COLLA_TRY_ASSIGN(const std::string credential, fetchCredential(place.store, deadline));
  COLLA_TRY_ASSIGN(const std::string text, rendezvous::mungeOpen(credential));
  auto handed = Handed::parse(text);
  if (handed && handed->jobId == place.jobId) return *std::move(handed);
  return {StatusCode::kRefused,
          fmt::format("another job of yours is at {}: set COLLA_STORE to rank 0's host and a free "
                      "port there",
                      place.store)};
}

Result<std::unique_ptr<ProcessManager>> openManager(const Place& place) {
  if (place.handout == Handout::kPmix) return openPmix();
  const char* const descriptor = std::getenv("PMI_FD");
  return openPmi(descriptor == nullptr ? -1 : std::atoi(descriptor), place.rank);
}

// Where the others reach rank 0: the user's choice, or a free port at what leads to one of them.
Result<std::string> addressOfStore(const Config& config, const Place& place,
                                   const std::vector<std::string>& hosts) {
  if (!place.store.empty()) {
    COLLA_TRY(checkReachable(place));
    return place.store;
  }
  const std::string interface = config.text("interface");
  if (!interface.empty()) {
    COLLA_TRY_ASSIGN(const std::string host, net::interfaceAddress(interface));
    return net::withPort(host, 0);
  }
  const auto away = std::ranges::find_if_not(
      hosts, [&](const std::string& host) { return host == hosts.front(); });
  if (away == hosts.end()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("all of its hosts are called {}: set COLLA_INTERFACE=NAME", hosts.front())};
  }
  COLLA_TRY_ASSIGN(const std::string host, net::addressTowards(net::withPort(*away, 1)));
  return net::withPort(host, 0);
}

// What a process tells rank 0, in letters that a process manager carries.
std::string introduce(const rendezvous::SealingKey& key) {
  return key.publicHex() + rendezvous::secretToHex(hostName());
}

// Rank 0 reads what the others told, serves the store, and leaves a sealed text for each.
Result<Handed> sealForAll(const Config& config, Meeting& meeting, ProcessManager& manager,
                          const rendezvous::SealingKey& key, Deadline deadline) {
  const Place& place = meeting.place;
  const std::size_t keySize = key.publicHex().size();
  std::vector<std::string> keys, hosts;
  for (int rank = 0; rank < place.size; ++rank) {
    COLLA_TRY_ASSIGN(const std::string text, manager.get(rank, "key", deadline));
    keys.push_back(text.substr(0, keySize));
    const auto host =
        text.size() < keySize ? std::nullopt : rendezvous::bytesFromHex(text.substr(keySize));
    hosts.push_back(host.value_or(""));
  }
  COLLA_TRY_ASSIGN(const std::string address, addressOfStore(config, place, hosts));
  COLLA_TRY_ASSIGN(Handed handed, makeStore(meeting, address));
  for (int rank = 1; rank < place.size; ++rank) {
    COLLA_TRY_ASSIGN(const std::string sealed,
                     key.seal(handed.text(), keys[static_cast<std::size_t>(rank)],
                              fmt::format("{} {}", place.jobId, rank)));
    COLLA_TRY(manager.put(fmt::format("for-{}", rank), key.publicHex() + sealed, deadline));
  }
  return handed;
}

Result<Handed> openSealed(const Place& place, ProcessManager& manager,
                          const rendezvous::SealingKey& key, Deadline deadline) {
  COLLA_TRY_ASSIGN(const std::string text,
                   manager.get(0, fmt::format("for-{}", place.rank), deadline));
  const std::size_t keySize = key.publicHex().size();
  if (text.size() < keySize) return {StatusCode::kRefused, "rank 0 handed out no secret"};
  COLLA_TRY_ASSIGN(const std::string opened,
                   key.open(text.substr(keySize), text.substr(0, keySize),
                            fmt::format("{} {}", place.jobId, place.rank)));
  auto handed = Handed::parse(opened);
  if (!handed) return {StatusCode::kRefused, "rank 0 handed out something else"};
  return *std::move(handed);
}

Result<Handed> byManager(const Config& config, Meeting& meeting, Deadline deadline) {
  Place& place = meeting.place;
  COLLA_TRY_ASSIGN(const auto manager, openManager(place));
  if (place.jobId.empty()) {
    COLLA_TRY_ASSIGN(const std::string name, manager->jobName(deadline));
    place.jobId = place.launcher + "-" + name;
  }
  const bool oneHost = place.localSize == place.size;
  if (oneHost && place.store.empty()) return Handed{place.jobId, localStore(place.jobId), ""};
  if (oneHost || (!place.store.empty() && !place.secretFile.empty())) {
    return Handed{place.jobId, place.store, ""};
  }
  const auto key = rendezvous::SealingKey::make();
  COLLA_TRY(manager->put("key", introduce(key), deadline));
  COLLA_TRY(manager->fence(deadline));
  Result<Handed> handed = Handed();
  if (place.rank == 0) handed = sealForAll(config, meeting, *manager, key, deadline);
  // The others wait here: what went wrong in rank 0 comes after it.
  COLLA_TRY(manager->fence(deadline));
  return place.rank == 0 ? std::move(handed) : openSealed(place, *manager, key, deadline);
}

// What this process was handed, by launcher and job id: a launcher's job has one secret, and its
// process manager tells things once.
struct Handouts {
  Mutex mutex;
  std::map<std::string, Handed> known COLLA_GUARDED_BY(mutex);
};

}  // namespace

Result<std::shared_ptr<CredentialDoor>> handOut(const Config& config, Meeting& meeting,
                                                Deadline deadline) {
  Place& place = meeting.place;
  std::shared_ptr<CredentialDoor> door;
  if (place.handout == Handout::kNone) return door;
  static Handouts handouts;
  const MutexLock lock(handouts.mutex);
  const std::string name = place.launcher + " " + place.jobId;
  auto it = handouts.known.find(name);
  if (it == handouts.known.end()) {
    auto handed = place.handout == Handout::kMunge ? byMunge(meeting, door, deadline)
                                                   : byManager(config, meeting, deadline);
    if (!handed.ok()) return withHint(handed.status(), place);
    it = handouts.known.emplace(name, *std::move(handed)).first;
  }
  place.jobId = it->second.jobId;
  place.store = it->second.store;
  place.secretHex = it->second.secretHex;
  place.handout = Handout::kNone;
  return door;
}

}  // namespace colla::job
