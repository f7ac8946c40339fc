#include "colla/job.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/config.h"
#include "base/log.h"
#include "base/version.h"
#include "collective/group_core.h"
#include "job/connect.h"
#include "job/cpu.h"
#include "job/environment.h"
#include "job/epochs.h"
#include "job/freed_memory.h"
#include "job/handout.h"
#include "job/metrics_service.h"
#include "job/open_store.h"
#include "job/settings.h"
#include "job/unknown_variables.h"
#include "rendezvous/secret.h"
#include "transport/inproc/transport.h"
#include "transport/shared_memory.h"

namespace colla {

// In the order of dependence: what comes last goes first.
struct Job::State {
  job::Place place;
  int slices = 0;
  int threads = 0;
  std::chrono::milliseconds timeout{};
  std::shared_ptr<job::MetricsService> metrics;  // Null: nobody asked for them.
  job::Connection connection;
  std::unique_ptr<job::Epochs> epochs;
};

namespace {

// Memory that nobody else sees.
Result<Bucket> allocatePrivate(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  auto* memory = rounded < bytes
                     ? nullptr
                     : static_cast<std::byte*>(std::aligned_alloc(kPage, std::max(rounded, kPage)));
  if (memory == nullptr) {
    return {StatusCode::kNoMemory, fmt::format("no memory for a bucket of {} bytes", bytes)};
  }
  std::fill_n(memory, bytes, std::byte{0});
  return Bucket({memory, bytes}, [memory] { std::free(memory); });
}

Result<int> slicesOf(const Config& config, const job::Place& place) {
  const auto wanted = config.integer("slices");
  if (wanted == 0) return place.size;
  if (wanted < place.size) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} workers can't share {} slices ({}): a worker runs at least one; start "
                        "with fewer workers or more slices",
                        place.size, wanted, config.origin("slices"))};
  }
  return static_cast<int>(wanted);
}

int threadsOf(const Config& config, const job::Place& place) {
  const auto wanted = config.integer("threads");
  if (wanted > 0) return static_cast<int>(wanted);
  return job::cpusForOne(place.localSize, place.ownCpus, job::usableCpus());
}

// A server's work is to move memory: a few threads can use all that a host's memory can do.
int serverThreadsOf(const Config& config, const job::Place& place) {
  constexpr int kEnough = 8;
  const auto wanted = config.integer("server_threads");
  if (wanted > 0) return static_cast<int>(wanted);
  return std::min(job::cpusForOne(place.localSize, place.ownCpus, job::usableCpus()), kEnough);
}

// Once, however many jobs a process has.
void warnOfUnknownVariables() {
  static std::once_flag told;
  std::call_once(told, [] {
    const std::string notice = job::unknownVariablesNotice();
    if (!notice.empty()) log::warn("{}", notice);
  });
}

Result<job::Epochs::Options> epochOptions(const Config& config, const job::Place& place, int slices,
                                          const job::Connection& connection) {
  job::Epochs::Options options{
      .workers = place.size, .servers = place.servers, .slices = slices, .self = place.index()};
  auto routes = std::make_shared<Routes>();
  routes->wire = connection.everywhere();
  routes->host = connection.host.get();
  routes->sharesMemory = connection.sharesMemory;
  for (const rendezvous::Member& member : connection.membership.members) {
    options.names.push_back(member.name());
    routes->hosts.push_back(member.hostKey);
  }
  // Threads, and a process alone, met nobody.
  for (int rank = static_cast<int>(options.names.size()); rank < place.size; ++rank) {
    options.names.push_back(fmt::format("rank {} on host {}", rank, place.host));
    routes->hosts.push_back(place.host);
  }
  COLLA_TRY_ASSIGN(options.group.algorithm, parseAlgorithm(config.text("algorithm")));
  options.group.timeout = config.seconds("collective_timeout");
  options.group.routes = std::move(routes);
  return options;
}

Result<job::Place> placeOfThreads(int workers) {
  COLLA_TRY_ASSIGN(job::Place place,
                   job::readEnvironment([](const char* name) { return std::getenv(name); }));
  if (!place.alone()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("workers as threads need a process of its own, but this is one of {} ({})",
                        place.size + place.servers, place.launcher)};
  }
  if (workers < 1) {
    return {StatusCode::kInvalidArgument,
            fmt::format("a job has at least one worker, not {}", workers)};
  }
  place.size = place.localSize = workers;
  return place;
}

}  // namespace

Result<std::unique_ptr<Job>> Job::init(const JobOptions& options) {
  COLLA_TRY_ASSIGN(const Config config, job::loadConfig(options.settings));
  // A secret's file may also be named in the configuration's.
  const std::string secretFile = config.text("secret_file");
  const auto variable = [&](const char* name) -> const char* {
    const bool asked = std::string_view(name) == "COLLA_SECRET_FILE" && !secretFile.empty();
    return asked ? secretFile.c_str() : std::getenv(name);
  };
  COLLA_TRY_ASSIGN(job::Place place, job::readEnvironment(variable));
  return init(options, job::Meeting{std::move(place)});
}

Result<std::unique_ptr<Job>> Job::init(const JobOptions& jobOptions, job::Meeting meeting) {
  COLLA_TRY_ASSIGN(const Config config, job::loadConfig(jobOptions.settings));
  COLLA_TRY_ASSIGN(const log::Level level, log::parseLevel(config.text("log")));
  const Deadline deadline = Deadline::after(config.seconds("start_timeout"));
  COLLA_TRY_ASSIGN([[maybe_unused]] const auto door, job::handOut(config, meeting, deadline));
  auto state = std::make_unique<State>();
  state->place = std::move(meeting.place);
  const job::Place& place = state->place;
  if (place.role == Role::kServer && !jobOptions.serves) {
    return {
        StatusCode::kInvalidArgument,
        fmt::format("this program has no part for parameter servers, but was started as ps {} of "
                    "{}: start it without them",
                    place.rank, place.servers)};
  }
  COLLA_TRY_ASSIGN(state->slices, slicesOf(config, place));
  state->threads =
      place.role == Role::kServer ? serverThreadsOf(config, place) : threadsOf(config, place);
  state->timeout = config.seconds("collective_timeout");
  // Who has libtorch trains.
  if (!jobOptions.torchVersion.empty()) job::keepFreedMemory(config);
  const rendezvous::MemberId id{place.role, place.rank};
  log::setLevel(level);
  log::setSpeaker(fmt::format("{} host {}", rendezvous::toString(id), place.host));
  if (place.role == Role::kWorker && place.rank == 0) warnOfUnknownVariables();

  state->metrics = job::MetricsService::start(config, place);
  if (!place.alone()) {
    COLLA_TRY_ASSIGN(const auto choice, job::chooseTransports(config, place));
    COLLA_TRY_ASSIGN(
        const std::string secret,
        rendezvous::loadSecret(place.secretHex.empty() ? nullptr : place.secretHex.c_str(),
                               place.secretFile));
    // What came of the defaults counts too: bits depend on it. Servers don't compute with threads,
    // so in a job that has some, workers compare them when they declare what they train.
    const transport::Identity identity{
        .colla = std::string(version()),
        .torch = jobOptions.torchVersion,
        .cpu = job::cpuFeatures(),
        .settings = fmt::format("{}threads in use={}\nslices in use={}\n", config.sharedText(),
                                place.servers == 0 ? state->threads : 0, state->slices)};
    COLLA_TRY_ASSIGN(state->connection, job::connect(config, place, choice, secret, identity,
                                                     std::move(meeting.server), deadline));
  }
  if (state->metrics != nullptr) {
    COLLA_TRY(state->metrics->serveEndpoint(config, state->connection.membership));
  }
  COLLA_TRY_ASSIGN(auto epochs, epochOptions(config, place, state->slices, state->connection));
  COLLA_TRY_ASSIGN(state->epochs, job::Epochs::start(std::move(epochs), deadline));
  return std::unique_ptr<Job>(new Job(std::move(state)));
}

Result<std::vector<std::unique_ptr<Job>>> Job::inThreads(int workers,
                                                         const JobOptions& jobOptions) {
  COLLA_TRY_ASSIGN(const Config config, job::loadConfig(jobOptions.settings));
  COLLA_TRY_ASSIGN(const log::Level level, log::parseLevel(config.text("log")));
  COLLA_TRY_ASSIGN(const job::Place place, placeOfThreads(workers));
  if (!jobOptions.torchVersion.empty()) job::keepFreedMemory(config);
  log::setLevel(level);
  log::setSpeaker(workers == 1 ? fmt::format("rank 0 host {}", place.host)
                               : fmt::format("ranks 0-{} host {}", workers - 1, place.host));
  warnOfUnknownVariables();

  transport::Options options;
  options.jobId = "threads";
  options.spin = job::spinOf(config, place);
  for (int rank = 0; rank < workers; ++rank) {
    options.peers.push_back({fmt::format("rank {} on host {}", rank, place.host), "", place.host});
  }
  const auto metrics = job::MetricsService::start(config, place);
  if (metrics != nullptr) COLLA_TRY(metrics->serveEndpoint(config, {}));
  transport::inproc::Hub hub(workers);
  std::vector<std::unique_ptr<Job>> jobs;
  for (int rank = 0; rank < workers; ++rank) {
    auto state = std::make_unique<State>();
    state->place = place;
    state->place.rank = state->place.localRank = options.self = rank;
    state->timeout = config.seconds("collective_timeout");
    state->metrics = metrics;
    COLLA_TRY_ASSIGN(state->slices, slicesOf(config, place));
    state->threads = threadsOf(config, place);
    COLLA_TRY_ASSIGN(state->connection.host, hub.connect(options));
    state->connection.sharesMemory = true;
    jobs.push_back(std::unique_ptr<Job>(new Job(std::move(state))));
  }

  // Making a group is meeting the others: each in a thread of its own.
  const Deadline deadline = Deadline::after(config.seconds("start_timeout"));
  std::vector<Status> statuses(workers);
  const auto join = [&](State& state) -> Status {
    COLLA_TRY_ASSIGN(auto epochs,
                     epochOptions(config, state.place, state.slices, state.connection));
    COLLA_TRY_ASSIGN(state.epochs, job::Epochs::start(std::move(epochs), deadline));
    return {};
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < workers; ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = join(*jobs[rank]->state_); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) COLLA_TRY(status);
  return jobs;
}

Job::Job(std::unique_ptr<State> state) : state_(std::move(state)) {}
Job::~Job() = default;

Role Job::role() const { return state_->place.role; }
int Job::rank() const { return state_->place.rank; }
int Job::size() const {
  return role() == Role::kWorker ? state_->place.size : state_->place.servers;
}
int Job::localRank() const { return state_->place.localRank; }
int Job::localSize() const { return state_->place.localSize; }
int Job::servers() const { return state_->place.servers; }
const std::string& Job::host() const { return state_->place.host; }
int Job::slices() const { return state_->slices; }
int Job::threads() const { return state_->threads; }

Epoch Job::epoch() const { return state_->epochs->current(); }
Status Job::replaceEpoch(const std::optional<EpochPlan>& plan, std::chrono::milliseconds timeout) {
  return state_->epochs->replace(plan, timeout);
}
Status Job::checkEpoch(const EpochPlan& plan) const { return state_->epochs->check(plan); }
Group& Job::world() { return state_->epochs->current().world(); }

transport::Transport* Job::transport() { return state_->connection.everywhere(); }

std::vector<std::string> Job::names() const {
  std::vector<std::string> names;
  for (const auto& member : state_->connection.membership.members) names.push_back(member.name());
  return names;
}

std::chrono::milliseconds Job::timeout() const { return state_->timeout; }

Result<Bucket> Job::allocate(std::size_t bytes) {
  transport::Transport* const host = state_->connection.host.get();
  if (host == nullptr) return allocatePrivate(bytes);
  const auto& shelf = state_->epochs->shelf();
  COLLA_TRY_ASSIGN(const transport::Mapping region,
                   shelf->takeZeroed(*host->sharedMemory(), bytes));
  return Bucket(region.bytes, [shelf, region] { shelf->giveBack(region); });
}

// The first worker of the host allocates it and tells the others where; nobody goes on before all
// have it.
Result<Bucket> Job::allocateCommon(std::size_t bytes) {
  Group& neighbours = state_->epochs->current().host();
  if (neighbours.size() == 1) return allocate(bytes);
  if (!state_->connection.sharesMemory) {
    return {StatusCode::kUnsupported, "the workers of this job share no memory"};
  }
  transport::SharedMemory& memory = *state_->connection.host->sharedMemory();
  const bool first = neighbours.rank() == 0;
  Result<transport::Mapping> region = transport::Mapping();
  std::vector<std::int64_t> told = {transport::Place::kNowhere, 0};
  if (first) {
    region = memory.allocate(bytes);
    if (region.ok()) {
      const transport::Place place = memory.find(region->bytes);
      told = {place.region, static_cast<std::int64_t>(place.offset)};
    }
  }
  const GroupCore::Options& group = neighbours.core().options();
  COLLA_TRY(broadcast(neighbours, told, 0));
  if (told[0] == transport::Place::kNowhere) {
    return first ? region.status()
                 : Status(StatusCode::kNoMemory,
                          fmt::format("{} found no memory for {} bytes", group.names[0], bytes));
  }
  if (!first) {
    const transport::Place place{.region = static_cast<std::uint32_t>(told[0]),
                                 .offset = static_cast<std::uint64_t>(told[1])};
    region = memory.map(group.members[0], place, bytes, Deadline::after(timeout()));
  }
  // The others are on their way to the barrier.
  if (!region.ok()) return neighbours.core().giveUp(region.status());
  // All of it at once, where the kernel can: otherwise every page stops its first user.
  madvise(region->bytes.data(), region->bytes.size(), MADV_POPULATE_WRITE);
  COLLA_TRY(barrier(neighbours));
  return Bucket(region->bytes, [keep = std::move(region->keep)] {});
}

}  // namespace colla
