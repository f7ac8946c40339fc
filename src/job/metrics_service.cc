#include "job/metrics_service.h"

#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/thread_annotations.h"
#include "observe/metrics_endpoint.h"
#include "observe/metrics_socket.h"

namespace colla::job {
namespace {

observe::ProcessLabels labelsOf(Role role, int rank, const std::string& host) {
  return {.role = std::string(toString(role)), .rank = rank, .host = host};
}

struct Running {
  Mutex mutex;
  std::weak_ptr<MetricsService> service COLLA_GUARDED_BY(mutex);
};

}  // namespace

struct MetricsService::State {
  Place place;
  observe::ProcessLabels labels;
  std::unique_ptr<observe::MetricsSocket> socket;
  std::vector<observe::MetricsSource> others;
  std::unique_ptr<observe::MetricsEndpoint> endpoint;  // Before what its threads use goes.

  std::string page() const { return observe::metricsPage(metrics::Registry::ofProcess(), labels); }

  // Of this process and the others, for the endpoint's threads.
  std::string wholePage() const {
    std::vector<std::string> pages =
        observe::collectPages(others, Deadline::after(observe::kScrapeLimit));
    pages.push_back(observe::upPage(labels, /*up=*/true));
    pages.push_back(page());
    return observe::joinedPage(pages);
  }
};

MetricsService::MetricsService(const Place& place) : state_(std::make_unique<State>()) {
  state_->place = place;
  state_->labels = labelsOf(place.role, place.rank, place.host);
}

MetricsService::~MetricsService() = default;

std::shared_ptr<MetricsService> MetricsService::start(const Config& config, const Place& place) {
  if (config.integer("metrics_port") < 0) return nullptr;
  static Running running;
  const MutexLock lock(running.mutex);
  if (auto service = running.service.lock()) return service;
  // A job of its own (torch.distributed's) may live in a process of `colla run`, which asks for the
  // process that it started.
  const auto started = readEnvironment([](const char* name) { return std::getenv(name); });
  const bool front = started.ok() && started->launcher == "colla";
  std::shared_ptr<MetricsService> service(new MetricsService(front ? *started : place));
  running.service = service;
  State& state = *service->state_;
  // A process that nobody started and that is alone has no reader but its own endpoint.
  if (place.alone() && !front) return service;
  auto socket =
      observe::MetricsSocket::serve(observe::metricsSocketName(state.place.jobId, state.labels),
                                    [&state] { return state.page(); });
  if (socket.ok()) {
    state.socket = *std::move(socket);
  } else {
    log::warn("{}", socket.status().message());
  }
  return service;
}

Status MetricsService::serveEndpoint(const Config& config, const rendezvous::Membership& members) {
  State& state = *state_;
  const Place& place = state.place;
  const bool front = place.launcher == "colla";
  if (front || place.role != Role::kWorker || place.rank != 0 || state.endpoint != nullptr) {
    return {};
  }
  COLLA_TRY_ASSIGN(state.endpoint, observe::MetricsEndpoint::open(config));
  const int self = members.find({place.role, place.rank});
  for (const rendezvous::Member& member : members.members) {
    if (member.id() == rendezvous::MemberId{place.role, place.rank} ||
        member.hostKey != members.members[static_cast<std::size_t>(self)].hostKey) {
      continue;
    }
    const auto labels = labelsOf(member.role, member.rank, member.host);
    state.others.push_back({labels, observe::metricsSocketName(place.jobId, labels)});
  }
  state.endpoint->start([&state] { return state.wholePage(); });
  log::info("{}", state.endpoint->notice());
  return {};
}

}  // namespace colla::job
