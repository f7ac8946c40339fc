#include "bench/collectives.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "bench/bare.h"
#include "bench/coordinator.h"
#include "bench/report.h"
#include "bench/runner.h"
#include "bench/systems.h"
#include "bench/units.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartLimit = 120s;

// A line on stderr that overwrites itself, if somebody watches.
class ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  void show(const std::string& line) {
    if (!watched_) return;
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    std::fflush(stderr);
    shown_ = true;
  }
  void clear() {
    if (std::exchange(shown_, false)) std::fputs("\r\033[K", stderr);
  }

 private:
  const bool watched_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

std::vector<Point> pointsOf(const CollectivesOptions& options) {
  std::vector<Point> points;
  for (const Operation operation : options.operations) {
    for (const std::size_t bytes : options.bytes) {
      points.push_back(makePoint(operation, bytes, options.np));
      if (operation == Operation::kBarrier) break;
    }
  }
  return points;
}

std::size_t largestOf(const std::vector<Point>& points) {
  return std::ranges::max(points, {}, &Point::bytes).bytes();
}

std::size_t availableMemory() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    std::size_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %zu kB", &kilobytes) == 1) {
      return kilobytes * 1024;
    }
  }
  return SIZE_MAX;  // Nobody says.
}

// Jiffies that this machine's cores have spent, all in all and not idle.
struct CpuTime {
  double all = 0;
  double busy = 0;

  static CpuTime now() {
    CpuTime time;
    std::ifstream stat("/proc/stat");
    std::string cpu;
    stat >> cpu;
    double value = 0;
    for (int column = 0; column < 8 && stat >> value; ++column) {
      const bool idle = column == 3 || column == 4;  // Idle, and waiting for a disk.
      time.all += value;
      if (!idle) time.busy += value;
    }
    return time;
  }
};

// While nothing of ours runs yet: how many cores others keep busy.
double coresInUse() {
  const CpuTime before = CpuTime::now();
  usleep(200'000);
  const CpuTime after = CpuTime::now();
  const double cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  return after.all > before.all ? cores * (after.busy - before.busy) / (after.all - before.all) : 0;
}

// The run of one benchmark.
class Bench {
 public:
  Bench(const CollectivesOptions& options, Coordinator& coordinator)
      : options_(options), coordinator_(coordinator), points_(pointsOf(options)) {}

  Result<std::vector<Measurement>> run() {
    if (const double cores = coresInUse(); cores > 0.25) {
      fmt::print(stderr, "colla bench: this machine is busy ({:.1f} cores): times are too long\n",
                 cores);
    }
    COLLA_TRY(checkMemory());
    COLLA_TRY(startAll());
    RunnerOptions how;
    how.np = options_.np;
    how.rounds = options_.rounds;
    how.seconds = options_.seconds;
    how.progress = [this](const std::string& line) { progress_.show(line); };
    return measureAll(coordinator_, systems_, points_, how);
  }

 private:
  Status startAll() {
    Stage stage{coordinator_, options_.np, options_.net, nullptr};
    if (options_.net == Net::kVeth) {
      COLLA_TRY_ASSIGN(VethPair pair, VethPair::create(coordinator_));
      stage.veth = &veth_.emplace(std::move(pair));
    }
    for (const SystemInfo& info : collaSystems()) COLLA_TRY(start(info, collaSystem(stage, info)));
    for (const std::string& peer : options_.peers) COLLA_TRY(startPeer(stage, peer));
    if (options_.net == Net::kShm) {
      COLLA_TRY_ASSIGN(bareMemory_, BareMemory::create(options_.np, largestOf(points_)));
      COLLA_TRY(start({"bare", "shared", "memory", true}, bareSystem(stage, *bareMemory_)));
    }
    return {};
  }

  std::vector<SystemInfo> collaSystems() const {
    if (options_.net != Net::kShm) {
      return {{"colla-tcp-plain", "private", "tcp-plain", false},
              {"colla-tcp", "private", "tcp", false}};
    }
    std::vector<SystemInfo> infos;
    for (const std::string& buffers : options_.buffers) {
      infos.push_back({buffers == "shared" ? "colla" : "colla-private", buffers, "shm", false});
    }
    return infos;
  }

  Status startPeer(const Stage& stage, const std::string& peer) {
    const std::string transport =
        peer == "openmpi" && options_.net == Net::kShm ? "shm" : "tcp-plain";
    const auto spec = peer == "gloo" ? glooSystem(stage) : openMpiSystem(stage);
    const Status status =
        spec.ok() ? start({peer, "private", transport, false}, *spec) : spec.status();
    if (status.ok()) return {};
    if (options_.peersRequired || coordinator_.signal() != 0) return status.withContext(peer);
    progress_.clear();
    fmt::print(stderr, "colla bench: {} is left out: {}\n", peer, status.message());
    return {};
  }

  Status start(const SystemInfo& info, const SystemSpec& spec) {
    progress_.show("start " + info.name);
    COLLA_TRY(coordinator_.start(spec, Deadline::after(kStartLimit)));
    systems_.push_back(info);
    return {};
  }

  // Every system holds its buffers, one for input and one for output, all at the same time.
  Status checkMemory() const {
    const std::size_t bare = options_.net == Net::kShm ? 1 : 0;
    const std::size_t systems = collaSystems().size() + options_.peers.size() + bare;
    const std::size_t need = 2 * largestOf(points_) * options_.np * systems;
    const std::size_t have = availableMemory();
    if (need <= have) return {};
    return {StatusCode::kNoMemory,
            fmt::format("{} systems of {} ranks with buffers of {} need up to {:.1f} GB, and only "
                        "{:.1f} GB are free: choose smaller --bytes or fewer --peers",
                        systems, options_.np, bytesText(largestOf(points_)),
                        static_cast<double>(need) / 1e9, static_cast<double>(have) / 1e9)};
  }

  const CollectivesOptions& options_;
  Coordinator& coordinator_;
  const std::vector<Point> points_;
  std::optional<VethPair> veth_;
  std::shared_ptr<BareMemory> bareMemory_;
  std::vector<SystemInfo> systems_;
  ProgressLine progress_;
};

int failure(const Status& status) {
  fmt::print(stderr, "colla bench: {}\n", status.message());
  return 1;
}

}  // namespace

int benchCollectives(const CollectivesOptions& options) {
  std::ofstream jsonOut;
  if (!options.jsonFile.empty()) {  // Now, rather than after minutes of measuring.
    jsonOut.open(options.jsonFile, std::ios::app);
    if (!jsonOut) {
      return failure({StatusCode::kIo,
                      fmt::format("cannot write {}: {}", options.jsonFile, std::strerror(errno))});
    }
    jsonOut.close();
  }
  auto coordinator = Coordinator::create();
  if (!coordinator.ok()) return failure(coordinator.status());
  const auto measured = Bench(options, **coordinator).run();
  if (!measured.ok()) {
    failure(measured.status());
    return (*coordinator)->signal() != 0 ? 128 + (*coordinator)->signal() : 1;
  }
  fmt::print("{}", table(*measured));
  if (!options.jsonFile.empty()) {
    jsonOut.open(options.jsonFile, std::ios::trunc);
    jsonOut << json(*measured);
    jsonOut.close();
    if (!jsonOut) return failure({StatusCode::kIo, "cannot write " + options.jsonFile});
  }
  return 0;
}

}  // namespace colla::bench
