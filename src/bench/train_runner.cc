#include "bench/train_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "bench/report.h"
#include "bench/runner.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswerLimit = 120s;

// One system at one point.
struct Track {
  const TrainSystem* system;
  long steps = 1;
  double loss = 0;
  std::size_t pss = 0;
  std::vector<double> seconds;
};

class Runner {
 public:
  Runner(Coordinator& coordinator, const TrainPoint& point, BatchSize batch,
         const TrainRunnerOptions& options)
      : coordinator_(coordinator),
        point_(point),
        batch_(batch),
        options_(options),
        title_(fmt::format("{} batch {}", point.model, toString(batch))) {}

  Result<std::vector<TrainMeasurement>> measure(const std::vector<TrainSystem>& systems) {
    std::vector<Track> tracks;
    for (const TrainSystem& system : systems) tracks.push_back({&system, 1, 0, 0, {}});
    for (Track& track : tracks) COLLA_TRY(prepare(track));
    COLLA_TRY(checkThatTheyAgree(tracks));
    for (Track& track : tracks) COLLA_TRY(chooseSteps(track));
    const Deadline limit = Deadline::after(options_.pointLimit);
    for (int round = 0; round < options_.rounds && (round == 0 || !limit.expired()); ++round) {
      for (Track& track : tracks) {
        say(fmt::format("round {} of {}: {}", round + 1, options_.rounds, track.system->name));
        COLLA_TRY_ASSIGN(const double seconds, time(track));
        track.seconds.push_back(seconds);
      }
    }
    for (Track& track : tracks) COLLA_TRY(watchMemory(track));
    return results(tracks);
  }

 private:
  // Into so many parts a system cuts what it verifies: independent workers have whole batches then.
  static int sharesOf(const TrainSystem& system) { return system.independent ? 1 : system.workers; }

  Status checkThatTheyAgree(const std::vector<Track>& tracks) const {
    std::map<int, std::vector<Track>> groups;
    for (const Track& track : tracks) {
      if (track.system->asynchronous) continue;
      const bool apart = options_.batchStatistics || batch_.perWorker;
      groups[apart ? sharesOf(*track.system) : 1].push_back(track);
    }
    for (const auto& [shares, group] : groups) {
      const Status agree = checkLosses(results(group), options_.verifySteps);
      if (!agree.ok()) return agree.withContext(title_);
    }
    for (const Track& track : tracks) {
      if (!track.system->asynchronous) continue;
      const Status finite = checkFinite(results({track}).front());
      if (!finite.ok()) return finite.withContext(title_);
    }
    return {};
  }

  void say(const std::string& what) const {
    if (options_.progress) options_.progress(title_ + ": " + what);
  }

  std::vector<TrainMeasurement> results(const std::vector<Track>& tracks) const {
    std::vector<TrainMeasurement> all;
    for (const Track& track : tracks) {
      all.push_back({.system = track.system->name,
                     .model = point_.model,
                     .batch = batch_,
                     .workers = track.system->workers,
                     .stepSeconds = track.seconds.empty() ? 0 : median(track.seconds),
                     .loss = track.loss,
                     .pssBytes = track.pss,
                     .exposedSeconds = {},
                     .rounds = static_cast<int>(track.seconds.size()),
                     .steps = track.steps});
    }
    return all;
  }

  Result<std::vector<std::string>> ask(const Track& track, const std::string& line,
                                       const std::function<Status()>& meanwhile = {}) {
    auto answers =
        coordinator_.ask(track.system->name, line, Deadline::after(kAnswerLimit), meanwhile);
    if (!answers.ok()) return answers.status().withContext(title_);
    return answers;
  }

  // One from each worker.
  Result<std::vector<double>> numbers(const Track& track, const std::string& line) {
    COLLA_TRY_ASSIGN(const auto answers, ask(track, line));
    std::vector<double> values;
    for (const std::string& answer : answers) {
      double value = 0;
      const auto [end, error] =
          std::from_chars(answer.data(), answer.data() + answer.size(), value);
      if (error != std::errc()) {
        return {StatusCode::kInternal,
                fmt::format("{} answered \"{}\" to {}", track.system->name, answer, line)};
      }
      values.push_back(value);
    }
    return values;
  }

  Status prepare(Track& track) {
    say("prepare " + track.system->name);
    TrainPoint point = point_;
    point.batch = batch_.ofAll(sharesOf(*track.system));
    point.share = batch_.ofWorker(track.system->workers);
    COLLA_TRY(ask(track, toLine(point)).status());
    COLLA_TRY_ASSIGN(const auto losses,
                     numbers(track, fmt::format("verify {}", options_.verifySteps)));
    track.loss =
        std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
    return {};
  }

  // As many as fit the wanted time; this warms up.
  Status chooseSteps(Track& track) {
    say("warm up " + track.system->name);
    for (double elapsed = 0; elapsed < options_.seconds / 4;) {
      COLLA_TRY_ASSIGN(const double seconds, time(track));
      elapsed = seconds * static_cast<double>(track.steps);
      const long next = nextIterations(track.steps, elapsed, options_.seconds);
      if (next == track.steps) break;
      track.steps = next;
    }
    return {};
  }

  // The most that a worker has while it trains. To look slows it down: this is not timed.
  Status watchMemory(Track& track) {
    say("watch the memory of " + track.system->name);
    const auto look = [&]() -> Status {
      COLLA_TRY_ASSIGN(const auto processes, coordinator_.memory(track.system->name));
      for (const ProcessMemory& process : processes) {
        if (isWorker(process.name)) track.pss = std::max(track.pss, process.pssBytes);
      }
      return {};
    };
    COLLA_TRY(ask(track, fmt::format("measure {}", track.steps), look).status());
    return look();
  }

  // Of one step.
  Result<double> time(const Track& track) {
    COLLA_TRY_ASSIGN(const auto workers, numbers(track, fmt::format("measure {}", track.steps)));
    for (const double seconds : workers) {
      if (seconds > 0) continue;
      return {StatusCode::kInternal,
              fmt::format("{} measured {} seconds", track.system->name, seconds)};
    }
    return stepSeconds(workers, track.steps, track.system->independent);
  }

  Coordinator& coordinator_;
  const TrainPoint& point_;
  const BatchSize batch_;
  const TrainRunnerOptions& options_;
  const std::string title_;
};

}  // namespace

double stepSeconds(const std::vector<double>& workers, long steps, bool independent) {
  if (!independent) return std::ranges::max(workers) / static_cast<double>(steps);
  double rate = 0;  // In global batches per second.
  for (const double seconds : workers) {
    rate += static_cast<double>(steps) / static_cast<double>(workers.size()) / seconds;
  }
  return 1 / rate;
}

Status checkLosses(const std::vector<TrainMeasurement>& measurements, int steps) {
  constexpr double kTolerance = 1e-3;
  const TrainMeasurement& first = measurements.front();
  for (const TrainMeasurement& m : measurements) {
    // Written so that NaN fails.
    if (std::abs(m.loss - first.loss) <= kTolerance * std::abs(first.loss)) continue;
    return {StatusCode::kInternal,
            fmt::format("after {} steps the loss of {} is {:.6g}, but that of {} is {:.6g}: they "
                        "do not train the same",
                        steps, m.system, m.loss, first.system, first.loss)};
  }
  return {};
}

Status checkFinite(const TrainMeasurement& one) {
  if (std::isfinite(one.loss)) return {};
  return {StatusCode::kInternal,
          fmt::format("the loss of {} is {}: it diverges", one.system, one.loss)};
}

Result<std::vector<TrainMeasurement>> measureTraining(Coordinator& coordinator,
                                                      const std::vector<TrainSystem>& systems,
                                                      const TrainPoint& point, BatchSize batch,
                                                      const TrainRunnerOptions& options) {
  COLLA_TRY_ASSIGN(auto measurements, Runner(coordinator, point, batch, options).measure(systems));
  const auto on = std::ranges::find(measurements, "colla-2", &TrainMeasurement::system);
  const auto alone = std::ranges::find(measurements, "colla-2x1", &TrainMeasurement::system);
  if (on != measurements.end() && alone != measurements.end()) {
    on->exposedSeconds = on->stepSeconds - alone->stepSeconds;
  }
  return measurements;
}

}  // namespace colla::bench
