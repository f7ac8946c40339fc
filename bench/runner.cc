#include "bench/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "bench/machine.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr long kMostIterations = 2'000'000;
// For any single question: large buffers on a crowded machine take their time.
constexpr auto kAnswerLimit = 120s;

// One contender, and what was seen of it so far.
struct Track {
  Contender& contender;
  Measurement outcome = {};
  std::vector<double> seconds = {};
  double elapsed = 0;
};

class PointRunner {
 public:
  explicit PointRunner(const RunnerOptions& options) : options_(options) {}

  Result<std::vector<Measurement>> run(std::span<const std::unique_ptr<Contender>> contenders) {
    std::vector<Track> tracks;
    for (const auto& contender : contenders) tracks.push_back({*contender});
    std::vector<double> values;
    for (Track& track : tracks) {
      say("prepare", track);
      COLLA_TRY_ASSIGN(track.outcome.value, track.contender.prepare());
      values.push_back(track.outcome.value);
    }
    if (options_.agree) COLLA_TRY(options_.agree(values));
    for (Track& track : tracks) COLLA_TRY(chooseIterations(track));
    const Deadline limit = Deadline::after(options_.pointLimit);
    for (int round = 0; round < options_.rounds && (round == 0 || !limit.expired()); ++round) {
      for (Track& track : tracks) {
        say(fmt::format("round {} of {}:", round + 1, options_.rounds), track);
        COLLA_TRY(measureRound(track));
      }
    }
    std::vector<Measurement> outcomes;
    for (Track& track : tracks) {
      say("look at", track);
      COLLA_TRY(track.contender.finish(track.outcome.iterations));
      track.outcome.seconds = median(track.seconds);
      for (auto& [name, cores] : track.outcome.cores) cores /= track.elapsed;
      outcomes.push_back(std::move(track.outcome));
    }
    return outcomes;
  }

 private:
  void say(const std::string& what, const Track& track) const {
    if (!options_.progress) return;
    options_.progress(fmt::format("{}: {} {}", options_.title, what, track.contender.name()));
  }

  // As many as fit the wanted time; this warms up.
  Status chooseIterations(Track& track) {
    long& iterations = track.outcome.iterations;
    iterations = options_.iterations;
    say("warm up", track);
    for (double elapsed = 0; elapsed < options_.seconds / 4;) {
      COLLA_TRY_ASSIGN(const Timing timing, track.contender.measure(iterations));
      elapsed = timing.seconds;
      const long next = nextIterations(iterations, elapsed, options_.seconds);
      if (next == iterations) break;
      iterations = next;
    }
    return {};
  }

  static Status measureRound(Track& track) {
    const long iterations = track.outcome.iterations;
    COLLA_TRY_ASSIGN(const Timing timing, track.contender.measure(iterations));
    track.seconds.push_back(timing.seconds / static_cast<double>(iterations));
    track.elapsed += timing.elapsed;
    for (const auto& [name, cpu] : timing.cpu) track.outcome.cores[name] += cpu;
    ++track.outcome.rounds;
    return {};
  }

  const RunnerOptions& options_;
};

}  // namespace

CpuTimes cpuTimes(std::span<const Processes::One> processes) {
  CpuTimes times;
  for (const auto& process : processes) times[process.name] = cpuSeconds(process.pid);
  return times;
}

CpuTimes difference(CpuTimes after, const CpuTimes& before) {
  for (auto& [name, seconds] : after) seconds -= before.at(name);
  return after;
}

Result<std::vector<double>> AgentContender::ask(const std::string& line,
                                                const std::function<Status()>& meanwhile) {
  COLLA_TRY_ASSIGN(const auto answers,
                   coordinator_.ask(system_, line, Deadline::after(kAnswerLimit), meanwhile));
  std::vector<double> values;
  for (const std::string& answer : answers) {
    double value = 0;
    const char* const last = answer.data() + answer.size();
    if (std::from_chars(answer.data(), last, value).ec != std::errc()) {
      return {StatusCode::kInternal,
              fmt::format("{} answered \"{}\" to {}", system_, answer, line)};
    }
    values.push_back(value);
  }
  return values;
}

Result<double> AgentContender::prepare() {
  COLLA_TRY(coordinator_.ask(system_, "prepare " + options_.prepare, Deadline::after(kAnswerLimit))
                .status());
  COLLA_TRY_ASSIGN(const auto values, ask(fmt::format("verify {}", options_.verifySteps)));
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Result<Timing> AgentContender::measure(long iterations) {
  const auto before = cpuTimes(coordinator_.processes(system_));
  const auto start = std::chrono::steady_clock::now();
  COLLA_TRY_ASSIGN(const auto ranks, ask(fmt::format("measure {}", iterations)));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  for (const double seconds : ranks) {
    if (seconds > 0) continue;
    return {StatusCode::kInternal, fmt::format("{} measured {} seconds", system_, seconds)};
  }
  return Timing{.seconds = iterationSeconds(ranks, iterations, options_.independent) *
                           static_cast<double>(iterations),
                .cpu = difference(cpuTimes(coordinator_.processes(system_)), before),
                .elapsed = elapsed.count()};
}

Status AgentContender::finish(long iterations) {
  if (options_.verifyAgain) COLLA_TRY(ask(fmt::format("verify {}", options_.verifySteps)).status());
  return options_.memory ? watchMemory(iterations) : Status();
}

// The most that a process has while it works. To look slows it down: this is not timed.
Status AgentContender::watchMemory(long iterations) {
  const auto look = [&]() -> Status {
    for (const auto& process : coordinator_.processes(system_)) {
      COLLA_TRY_ASSIGN(const std::size_t bytes, proportionalSetSize(process.pid));
      memory_[process.name] = std::max(memory_[process.name], bytes);
    }
    return {};
  };
  COLLA_TRY(ask(fmt::format("measure {}", iterations), look).status());
  return look();
}

std::size_t AgentContender::memory(const std::string& role) const {
  std::size_t most = 0;
  for (const auto& [process, bytes] : memory_) {
    if (process.find(role) != std::string::npos) most = std::max(most, bytes);
  }
  return most;
}

Result<std::vector<Measurement>> measure(std::span<const std::unique_ptr<Contender>> contenders,
                                         const RunnerOptions& options) {
  auto outcomes = PointRunner(options).run(contenders);
  if (!outcomes.ok()) return outcomes.status().withContext(options.title);
  return outcomes;
}

long nextIterations(long iterations, double elapsed, double target) {
  constexpr double kGrowth = 32;
  const double factor = std::min(target / elapsed, kGrowth);
  const double next = std::floor(static_cast<double>(iterations) * factor);
  return static_cast<long>(std::clamp(next, 1.0, static_cast<double>(kMostIterations)));
}

double iterationSeconds(std::span<const double> ranks, long iterations, bool independent) {
  if (!independent) return std::ranges::max(ranks) / static_cast<double>(iterations);
  double rate = 0;  // In iterations of all ranks per second.
  for (const double seconds : ranks) {
    rate += static_cast<double>(iterations) / static_cast<double>(ranks.size()) / seconds;
  }
  return 1 / rate;
}

double median(std::vector<double> values) {
  COLLA_CHECK(!values.empty());
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

}  // namespace colla::bench
