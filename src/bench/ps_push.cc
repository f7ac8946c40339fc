#include "bench/ps_push.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <sstream>

#include "bench/agent.h"
#include "bench/machine.h"
#include "bench/report.h"
#include "bench/runner.h"
#include "bench/systems.h"
#include "colla/collectives.h"
#include "colla/job.h"
#include "colla/server.h"
#include "ps/client_options.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswerLimit = 120s;

// What an agent of either kind does.
class Load {
 public:
  virtual ~Load() = default;
  virtual Status prepare(std::size_t bytes) = 0;
  virtual Status verify(long steps) = 0;
  virtual Status run(long steps) = 0;
  virtual Status barrier() = 0;
};

// A worker of a job with servers. A step's gradient is rank + 1 everywhere, the rate is 1.
class PushLoad : public Load {
 public:
  explicit PushLoad(Job& job) : job_(job) {}

  Status prepare(std::size_t bytes) override {
    const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
    ps::Declaration declaration;
    declaration.entries.push_back({.name = "all", .shape = {count}});
    declaration.layout.servers = job_.servers();
    declaration.optimizer = Sgd{.lr = 1};
    declaration.policy.workers = job_.size();
    declaration.threads = 1;
    declaration.firstSlices.resize(static_cast<std::size_t>(job_.size()) + 1);
    std::iota(declaration.firstSlices.begin(), declaration.firstSlices.end(), 0);
    COLLA_TRY_ASSIGN(client_, ps::Client::connect(ps::clientOptions(job_), std::move(declaration)));
    const auto blocks = client_->layout().blocks();
    if (job_.rank() == 0) {
      std::ranges::fill(client_->area(), std::byte{0});
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        COLLA_TRY(client_->fill(static_cast<int>(i), -1,
                                client_->area().subspan(blocks[i].offset, blocks[i].bytes)));
      }
      const std::vector<std::int64_t> steps(1);
      COLLA_TRY(client_->start(0, steps));
    }
    COLLA_TRY(client_->begin().status());
    setGradient(static_cast<float>(job_.rank() + 1));
    return {};
  }

  // Sums of small integers are exact.
  Status verify(long steps) override {
    COLLA_TRY(run(steps));
    const auto workers = static_cast<float>(job_.size());
    const float wanted = -static_cast<float>(steps) * workers * (workers + 1) / 2;
    for (const float value : floats(client_->area())) {
      if (value == wanted) continue;
      return {StatusCode::kInternal,
              fmt::format("wrong result: a parameter is {}, not {}", value, wanted)};
    }
    setGradient(0);  // What follows takes as long, however often it is done.
    return {};
  }

  Status run(long steps) override {
    ps::Finish finish{.share = 1.0 / job_.size()};
    finish.present = {1};
    const auto blocks = static_cast<int>(client_->layout().blocks().size());
    for (long i = 0; i < steps; ++i) {
      for (int block = 0; block < blocks; ++block) client_->push(block);
      COLLA_TRY(client_->finish(finish).status());
    }
    return {};
  }

  Status barrier() override { return job_.size() > 1 ? colla::barrier(job_.world()) : Status(); }

 private:
  static std::span<float> floats(std::span<std::byte> bytes) {
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }
  void setGradient(float value) { std::ranges::fill(floats(client_->partial(0)), value); }

  Job& job_;
  std::unique_ptr<ps::Client> client_;
};

// a = b + 3 c, for as many bytes of each.
class TriadLoad : public Load {
 public:
  Status prepare(std::size_t bytes) override {
    for (auto* one : {&a_, &b_, &c_}) one->assign(bytes / sizeof(float), 1.0F);
    return {};
  }
  Status verify(long steps) override {
    COLLA_TRY(run(steps));
    if (std::ranges::all_of(a_, [](float value) { return value == 4; })) return {};
    return {StatusCode::kInternal, "wrong result of the loop over memory"};
  }
  Status run(long steps) override {
    for (long i = 0; i < steps; ++i) {
      float* const a = a_.data();
      const float* const b = b_.data();
      const float* const c = c_.data();
      for (std::size_t k = 0; k < a_.size(); ++k) a[k] = b[k] + 3 * c[k];
      asm volatile("" : : "r"(a) : "memory");  // Every pass is wanted.
    }
    return {};
  }
  Status barrier() override { return {}; }

 private:
  std::vector<float> a_, b_, c_;
};

Result<std::string> obey(Load& load, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  std::size_t number = 0;
  words >> verb >> number;
  const auto steps = static_cast<long>(number);
  if (verb == "prepare") {
    COLLA_TRY(load.prepare(number));
    return std::string("ok");
  }
  if (verb == "verify") {
    COLLA_TRY(load.verify(steps));
    return std::string("ok");
  }
  if (verb == "measure") {
    COLLA_TRY(load.barrier());
    const auto start = std::chrono::steady_clock::now();
    COLLA_TRY(load.run(steps));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return fmt::format("ok {:.9f}", elapsed.count());
  }
  return {StatusCode::kInvalidArgument, fmt::format("\"{}\" means nothing to an agent", line)};
}

Status serve(const AgentPlace& place, Load& load) {
  return serveLines(place, [&](const std::string& line) { return obey(load, line); });
}

Status servePush(const AgentPlace& place) {
  COLLA_TRY_ASSIGN(const auto job, Job::init({.serves = true}));
  if (job->role() == Role::kServer) return colla::serve(*job);
  PushLoad load(*job);
  return serve(place, load);
}

SystemSpec pushSystem(Coordinator& coordinator, const std::string& name, int workers) {
  const Stage stage{coordinator, workers, Net::kShm, nullptr, /*servers=*/1};
  return collaJob(stage, name, "shm", [&](int rank, ProcessSpec& process) {
    const AgentPlace place{coordinator.socketPath(), name, rank, workers};
    process.body = [place] { return exitCode(servePush(place)); };
  });
}

SystemSpec memorySystem(Coordinator& coordinator, const std::string& name, int cores) {
  SystemSpec spec{name, cores, {}};
  for (int rank = 0; rank < cores; ++rank) {
    const AgentPlace place{coordinator.socketPath(), name, rank, cores};
    ProcessSpec process;
    process.name = fmt::format("{} rank {}", name, rank);
    process.body = [place] {
      TriadLoad load;
      return exitCode(serve(place, load));
    };
    spec.processes.push_back(std::move(process));
  }
  return spec;
}

struct Track {
  PushMeasurement result;
  double bytesOfStep = 0;  // Read and written, by all agents.
  std::vector<double> seconds;
};

class Runner {
 public:
  Runner(Coordinator& coordinator, const PushOptions& options)
      : coordinator_(coordinator), options_(options) {}

  Result<std::vector<PushMeasurement>> measure() {
    const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    COLLA_TRY(add("memory-1", 1, 3, memorySystem(coordinator_, "memory-1", 1)));
    if (cores > 1) COLLA_TRY(add("memory", cores, 3, memorySystem(coordinator_, "memory", cores)));
    for (const int workers : options_.workers) {
      const std::string name = fmt::format("colla-push-{}", workers);
      COLLA_TRY(add(name, workers, 2, pushSystem(coordinator_, name, workers)));
    }
    for (Track& track : tracks_) COLLA_TRY(chooseSteps(track));
    for (int round = 0; round < options_.rounds; ++round) {
      for (Track& track : tracks_) {
        say(fmt::format("round {} of {}: {}", round + 1, options_.rounds, track.result.system));
        COLLA_TRY_ASSIGN(const double elapsed, time(track));
        track.seconds.push_back(elapsed / static_cast<double>(track.result.steps));
        ++track.result.rounds;
      }
    }
    std::vector<PushMeasurement> all;
    for (Track& track : tracks_) {
      track.result.stepSeconds = median(track.seconds);
      track.result.bytesPerSecond = track.bytesOfStep / track.result.stepSeconds;
      all.push_back(track.result);
    }
    return all;
  }

 private:
  void say(const std::string& what) const {
    if (options_.progress) options_.progress("push: " + what);
  }

  // `passes`: how often an agent's step reads or writes its bytes.
  Status add(const std::string& name, int agents, int passes, const SystemSpec& spec) {
    say("start " + name);
    COLLA_TRY(coordinator_.start(spec, Deadline::after(60s)));
    Track track;
    track.result = {.system = name, .workers = agents, .bytes = options_.bytes};
    track.bytesOfStep = static_cast<double>(options_.bytes) * agents * passes;
    tracks_.push_back(track);
    COLLA_TRY(ask(name, fmt::format("prepare {}", options_.bytes)).status());
    return ask(name, "verify 2").status();
  }

  Result<std::vector<std::string>> ask(const std::string& system, const std::string& line) {
    return coordinator_.ask(system, line, Deadline::after(kAnswerLimit));
  }

  Status chooseSteps(Track& track) {
    for (double elapsed = 0; elapsed < options_.seconds / 4;) {
      COLLA_TRY_ASSIGN(elapsed, time(track));
      const long next = nextIterations(track.result.steps, elapsed, options_.seconds);
      if (next == track.result.steps) break;
      track.result.steps = next;
    }
    return {};
  }

  // Of the slowest.
  Result<double> time(const Track& track) {
    COLLA_TRY_ASSIGN(const auto answers,
                     ask(track.result.system, fmt::format("measure {}", track.result.steps)));
    double longest = 0;
    for (const std::string& answer : answers) {
      double seconds = 0;
      std::from_chars(answer.data(), answer.data() + answer.size(), seconds);
      if (!(seconds > 0)) {
        return {StatusCode::kInternal,
                fmt::format("{} measured \"{}\" seconds", track.result.system, answer)};
      }
      longest = std::max(longest, seconds);
    }
    return longest;
  }

  Coordinator& coordinator_;
  const PushOptions& options_;
  std::vector<Track> tracks_;
};

}  // namespace

Status checkPushMemory(const PushOptions& options) {
  // A worker has gradients and parameters, the server parameters; the memory's agents three arrays.
  std::size_t areas = 3 * (static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN)) + 1);
  for (const int workers : options.workers) areas += 2 * static_cast<std::size_t>(workers) + 1;
  const std::size_t need = areas * options.bytes;
  const std::size_t have = availableMemory();
  if (need <= have) return {};
  return {StatusCode::kNoMemory,
          fmt::format("pushing {:.1f} MB from up to {} workers needs about {:.1f} GB, and only "
                      "{:.1f} GB are free: choose fewer --workers or --bytes",
                      static_cast<double>(options.bytes) / 1e6, std::ranges::max(options.workers),
                      static_cast<double>(need) / 1e9, static_cast<double>(have) / 1e9)};
}

Result<std::vector<PushMeasurement>> measurePush(Coordinator& coordinator,
                                                 const PushOptions& options) {
  return Runner(coordinator, options).measure();
}

}  // namespace colla::bench
