#include "colla/job.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/config.h"
#include "base/log.h"
#include "base/version.h"
#include "collective/group_core.h"
#include "job/connect.h"
#include "job/cpu.h"
#include "job/environment.h"
#include "job/freed_memory.h"
#include "job/open_store.h"
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
  job::Connection connection;
  std::unique_ptr<Group> world;  // Of workers.
};

namespace {

constexpr std::uint32_t kWorldId = 1;

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
  return std::max(1, job::usableCpus() / std::max(1, place.localSize));
}

// A server's work is to move memory: a few threads can use all that a host's memory can do.
int serverThreadsOf(const Config& config, const job::Place& place) {
  constexpr int kEnough = 8;
  const auto wanted = config.integer("server_threads");
  if (wanted > 0) return static_cast<int>(wanted);
  return std::clamp(job::usableCpus() / std::max(1, place.localSize), 1, kEnough);
}

// Once, however many jobs a process has.
void warnOfUnknownVariables() {
  static std::once_flag told;
  std::call_once(told, [] {
    const std::string notice = job::unknownVariablesNotice();
    if (!notice.empty()) log::warn("{}", notice);
  });
}

Result<GroupCore::Options> worldOptions(const Config& config, const job::Place& place,
                                        const job::Connection& connection) {
  GroupCore::Options options;
  COLLA_TRY_ASSIGN(options.algorithm, parseAlgorithm(config.text("algorithm")));
  options.transport = connection.transport.get();
  options.id = kWorldId;
  options.rank = place.rank;
  options.timeout = config.seconds("collective_timeout");
  for (int rank = 0; rank < place.size; ++rank) {
    options.members.push_back(rank);
    const auto& members = connection.membership.members;
    options.names.push_back(members.empty() ? fmt::format("rank {} on host {}", rank, place.host)
                                            : members[rank].name());
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<Job>> Job::init(const JobOptions& options) {
  COLLA_TRY_ASSIGN(const Config config, Config::fromEnvironment(options.settings));
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
  COLLA_TRY_ASSIGN(const Config config, Config::fromEnvironment(jobOptions.settings));
  COLLA_TRY_ASSIGN(const log::Level level, log::parseLevel(config.text("log")));
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

  const Deadline deadline = Deadline::after(config.seconds("start_timeout"));
  if (!place.alone()) {
    COLLA_TRY_ASSIGN(const job::Wire wire, job::chooseWire(config, place));
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
    COLLA_TRY_ASSIGN(state->connection, job::connect(config, place, wire, secret, identity,
                                                     std::move(meeting.server), deadline));
  }
  if (place.role == Role::kWorker) {
    COLLA_TRY_ASSIGN(auto options, worldOptions(config, place, state->connection));
    COLLA_TRY_ASSIGN(auto core, GroupCore::create(std::move(options), deadline));
    state->world = std::make_unique<Group>(std::move(core));
  }
  return std::unique_ptr<Job>(new Job(std::move(state)));
}

Result<std::vector<std::unique_ptr<Job>>> Job::inThreads(int workers,
                                                         const JobOptions& jobOptions) {
  COLLA_TRY_ASSIGN(const Config config, Config::fromEnvironment(jobOptions.settings));
  COLLA_TRY_ASSIGN(const log::Level level, log::parseLevel(config.text("log")));
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
  if (!jobOptions.torchVersion.empty()) job::keepFreedMemory(config);
  log::setLevel(level);
  log::setSpeaker(workers == 1 ? fmt::format("rank 0 host {}", place.host)
                               : fmt::format("ranks 0-{} host {}", workers - 1, place.host));
  warnOfUnknownVariables();
  place.size = place.localSize = workers;

  transport::Options options;
  options.jobId = "threads";
  options.spin = job::spinOf(config, place);
  for (int rank = 0; rank < workers; ++rank) {
    options.peers.push_back({fmt::format("rank {} on host {}", rank, place.host), ""});
  }
  transport::inproc::Hub hub(workers);
  std::vector<std::unique_ptr<Job>> jobs;
  for (int rank = 0; rank < workers; ++rank) {
    auto state = std::make_unique<State>();
    state->place = place;
    state->place.rank = state->place.localRank = options.self = rank;
    state->timeout = config.seconds("collective_timeout");
    COLLA_TRY_ASSIGN(state->slices, slicesOf(config, place));
    state->threads = threadsOf(config, place);
    COLLA_TRY_ASSIGN(state->connection.transport, hub.connect(options));
    jobs.push_back(std::unique_ptr<Job>(new Job(std::move(state))));
  }

  // Making a group is meeting the others: each in a thread of its own.
  const Deadline deadline = Deadline::after(config.seconds("start_timeout"));
  std::vector<Status> statuses(workers);
  const auto join = [&](State& state) -> Status {
    COLLA_TRY_ASSIGN(auto group, worldOptions(config, state.place, state.connection));
    COLLA_TRY_ASSIGN(auto core, GroupCore::create(std::move(group), deadline));
    state.world = std::make_unique<Group>(std::move(core));
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

Group& Job::world() {
  COLLA_CHECK(state_->world != nullptr);  // Servers have none.
  return *state_->world;
}

transport::Transport* Job::transport() { return state_->connection.transport.get(); }

std::vector<std::string> Job::names() const {
  std::vector<std::string> names;
  for (const auto& member : state_->connection.membership.members) names.push_back(member.name());
  return names;
}

std::chrono::milliseconds Job::timeout() const { return state_->timeout; }

bool Job::sharesMemory() const {
  transport::Transport* const transport = state_->connection.transport.get();
  return transport != nullptr && transport->sharedMemory() != nullptr;
}

Result<Bucket> Job::allocate(std::size_t bytes) {
  if (!sharesMemory()) return allocatePrivate(bytes);
  COLLA_TRY_ASSIGN(transport::Mapping region, transport()->sharedMemory()->allocate(bytes));
  return Bucket(region.bytes, [keep = std::move(region.keep)] {});
}

// Worker 0 allocates it and tells the others where; nobody goes on before all have it.
Result<Bucket> Job::allocateCommon(std::size_t bytes) {
  if (size() == 1) return allocate(bytes);
  if (!sharesMemory()) {
    return {StatusCode::kUnsupported, "the workers of this job share no memory"};
  }
  transport::SharedMemory& memory = *transport()->sharedMemory();
  Result<transport::Mapping> region = transport::Mapping();
  std::vector<std::int64_t> told = {transport::Place::kNowhere, 0};
  if (rank() == 0) {
    region = memory.allocate(bytes);
    if (region.ok()) {
      const transport::Place place = memory.find(region->bytes);
      told = {place.region, static_cast<std::int64_t>(place.offset)};
    }
  }
  COLLA_TRY(broadcast(world(), told, 0));
  if (told[0] == transport::Place::kNowhere) {
    return rank() == 0 ? region.status()
                       : Status(StatusCode::kNoMemory,
                                fmt::format("worker 0 found no memory for {} bytes", bytes));
  }
  if (rank() != 0) {
    const transport::Place place{.region = static_cast<std::uint32_t>(told[0]),
                                 .offset = static_cast<std::uint64_t>(told[1])};
    region = memory.map(0, place, bytes, Deadline::after(timeout()));
  }
  // The others are on their way to the barrier.
  if (!region.ok()) return world().core().giveUp(region.status());
  // All of it at once, where the kernel can: otherwise every page stops its first user.
  madvise(region->bytes.data(), region->bytes.size(), MADV_POPULATE_WRITE);
  COLLA_TRY(barrier(world()));
  return Bucket(region->bytes, [keep = std::move(region->keep)] {});
}

}  // namespace colla
