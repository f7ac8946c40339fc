#include "job/open_store.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <thread>

#include "base/log.h"
#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "job/cluster.h"
#include "job/invitation.h"
#include "job/store_identity.h"
#include "rendezvous/membership.h"
#include "transport/net/address.h"
#include "transport/net/socket.h"

namespace colla::job {
namespace {

using namespace std::chrono_literals;
using rendezvous::MemberId;

MemberId selfOf(const Place& place) { return {place.role, place.rank}; }

// Who serves the store where no launcher does.
MemberId hostOfStore(const Place& place) {
  if (place.launcher != kLists) return {Role::kWorker, 0};
  return place.servers > 0 ? MemberId{Role::kServer, place.servers - 1}
                           : MemberId{Role::kWorker, place.size - 1};
}

// The stores that this process serves, by address and job. Several jobs at a time have one in
// common, since an address can be taken once; it ends with the last of them.
struct Served {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<rendezvous::StoreServer>> stores COLLA_GUARDED_BY(mutex);
};

Result<std::shared_ptr<rendezvous::StoreServer>> serve(const Place& place,
                                                       const std::string& secret) {
  static Served served;
  const MutexLock lock(served.mutex);
  auto& known = served.stores[place.store + " " + place.jobId];
  if (auto server = known.lock()) return server;
  auto server = rendezvous::StoreServer::start({.address = place.store,
                                                .jobId = place.jobId,
                                                .secret = secret,
                                                .identity = storeIdentity()});
  if (!server.ok() && place.launcher == kLists) return addressTaken(place, server.status());
  COLLA_TRY_ASSIGN(std::shared_ptr<rendezvous::StoreServer> started, std::move(server));
  known = started;
  return started;
}

// One of a host's processes that wait for the store: who has the socket of this name, which goes
// with it.
class Speaker {
 public:
  explicit Speaker(const Place& place)
      : everybody_(place.launcher == kLists), name_(localStore(place.jobId) + "-speaker") {}

  bool isThis() {
    if (everybody_ || voice_.valid()) return true;
    const auto address = transport::net::Address::parse(name_);
    if (!address.ok()) return true;
    auto voice = transport::net::listenOn(*address);
    if (voice.ok()) voice_ = *std::move(voice);
    return voice_.valid();
  }

 private:
  const bool everybody_;  // Somebody may sit in front of each.
  const std::string name_;
  UniqueFd voice_;
};

std::string howToStart(const Place& place, MemberId missing) {
  if (place.launcher == kLists) {
    return fmt::format("start it with --job_name {} --task_index {} and the same lists",
                       toString(missing.role), missing.rank);
  }
  if (place.oneHost()) return "was it started on this host?";
  return fmt::format("was it started, and can {} be reached from here?", place.store);
}

// Who serves the store may come much later than this process, above all where nobody started them
// together, and those who wait want to know for whom. Before there is a store nobody knows who is
// there: one process of each host says it.
Result<std::unique_ptr<rendezvous::Store>> await(const Place& place,
                                                 const rendezvous::StoreOptions& options,
                                                 Deadline deadline) {
  constexpr auto kPause = 50ms;
  const bool lists = place.launcher == kLists;
  Speaker speaker(place);
  // The last of the lists.
  const std::string awaited =
      lists ? fmt::format("{} at {}", options.server, place.tasks.back()) : options.server;
  const TimePoint started = Clock::real().now();
  const rendezvous::JoinReportOptions report;
  Deadline next = Deadline::after(report.first);
  while (true) {
    auto store = rendezvous::Store::connect(options, deadline.earlier(next));
    const StatusCode code = store.status().code();
    // A host that starts later may have its name later.
    if (code != StatusCode::kTimeout && (code != StatusCode::kNotFound || !lists)) return store;
    const auto waited =
        std::chrono::round<std::chrono::seconds>(Clock::real().now() - started).count();
    if (deadline.remaining() <= kPause) {
      return {
          StatusCode::kTimeout,
          fmt::format("{} did not come within {} s, and the others meet there{}: {}", awaited,
                      waited, place.oneHost() ? "" : fmt::format(" ({})", store.status().message()),
                      howToStart(place, hostOfStore(place)))};
    }
    if (next.remaining() <= kPause) {
      if (speaker.isThis()) {
        log::info("waiting for {}, where the others meet, {} s", awaited, waited);
      }
      next = Deadline::after(report.every);
    }
    std::this_thread::sleep_for(kPause);
  }
}

Status tellWhoIsWhere(const Place& place, rendezvous::Store& store, Deadline deadline) {
  std::map<MemberId, std::string> places;
  for (int i = 0; i < static_cast<int>(place.tasks.size()); ++i) {
    const MemberId id =
        i < place.size ? MemberId{Role::kWorker, i} : MemberId{Role::kServer, i - place.size};
    places[id] = "at " + place.tasks[static_cast<std::size_t>(i)];
  }
  return rendezvous::publishPlacement(store, places, deadline);
}

}  // namespace

Status checkReachable(const Place& place) {
  if (place.oneHost()) return {};
  const auto address = transport::net::Address::parse(place.store);
  if (!address.ok() || !address->isLocal()) return {};  // Connecting tells what is wrong with it.
  // An invitation finds the address by itself: by the interface.
  const bool invited = place.launcher == kTorchDistributed || place.launcher == kMeeting;
  return {StatusCode::kInvalidArgument,
          fmt::format("{} is {} here, which other hosts can't reach: set {}",
                      place.store.substr(0, place.store.rfind(':')), address->host(),
                      invited ? "COLLA_INTERFACE=NAME" : "COLLA_STORE=ADDRESS:PORT")};
}

Result<OpenStore> openStore(const Place& place, std::unique_ptr<rendezvous::StoreServer> server,
                            const std::string& secret, Deadline deadline) {
  COLLA_TRY(checkReachable(place));
  OpenStore open;
  open.server = std::move(server);
  if (place.servesStore && open.server == nullptr) {
    COLLA_TRY_ASSIGN(open.server, serve(place, secret));
  }
  const bool launched = place.launcher == "colla";
  const rendezvous::StoreOptions options{
      .address = place.store,
      .jobId = place.jobId,
      .secret = secret,
      .name = rendezvous::toString(selfOf(place)),
      .server = launched ? "`colla run`" : rendezvous::toString(hostOfStore(place)),
      .identity = storeIdentity()};
  COLLA_TRY_ASSIGN(open.store, launched ? rendezvous::Store::connect(options, deadline)
                                        : await(place, options, deadline));
  if (place.servesStore && !place.tasks.empty()) {
    COLLA_TRY(tellWhoIsWhere(place, *open.store, deadline));
  }
  return open;
}

}  // namespace colla::job
