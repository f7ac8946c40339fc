#include "study/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "launch/processes.h"

namespace colla::study {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr auto kInterval = 100ms;  // Between samples.
// Thorough samples cost more: one at the start, soon another, then one in two seconds.
constexpr long kOftenUntil = 20;
constexpr long kOften = 5;
constexpr long kSeldom = 20;
constexpr auto kScrapeSoon = 200ms;  // Between pages of counters, in the first seconds of a run,
constexpr auto kScrapeEvery = 1s;    // and later.
constexpr double kSoon = 3;
constexpr auto kScrapeLimit = 4s;  // A page of a job waits 3 seconds for processes that are busy.
constexpr std::size_t kLongestLine = 300;

double inSecondsSince(TimePoint began) {
  return std::chrono::duration<double>(steady_clock::now() - began).count();
}

std::string folderOf(const RunJob& job, int copy) {
  return copy == 0 ? job.directory : fmt::format("{}/copy-{}", job.directory, copy);
}

// Of a process that failed: the last line that says something, in which programs here say what went
// wrong.
std::string lastWords(const launch::Processes::One& one) {
  std::string words;
  for (const std::string& line : one.tail.lines()) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) words = line.substr(0, kLongestLine);
  }
  return words.empty() ? one.end.value_or("no end") : words;
}

class Watched {
 public:
  Watched(const RunJob& job, RunResult& result) : job_(job), result_(result) {}

  // One for each copy, with its output in a file.
  std::vector<launch::ProcessSpec> specs() {
    std::vector<launch::ProcessSpec> specs;
    for (int copy = 0; copy < job_.copies; ++copy) {
      const std::string folder = folderOf(job_, copy);
      std::filesystem::create_directories(folder);
      outputs_.emplace_back(folder + "/output.txt");
      launch::ProcessSpec spec{.name = copy == 0 ? "the run" : fmt::format("copy {}", copy)};
      if (job_.command.colla) spec.program.push_back(pathOfColla());
      for (std::string word : job_.command.words) {
        // Every copy writes into a folder of its own.
        if (copy > 0 && word.starts_with(job_.directory + "/")) {
          word = folder + word.substr(job_.directory.size());
        }
        spec.program.push_back(word);
      }
      for (const std::string& entry : job_.environment) {
        const auto equals = entry.find('=');
        spec.environment[entry.substr(0, equals)] = entry.substr(equals + 1);
      }
      spec.heard = [this, copy](const std::string& line) {
        outputs_[static_cast<std::size_t>(copy)] << line << std::endl;
        if (const int port = portIn(line); port > 0 && copy == 0) port_ = port;
      };
      specs.push_back(std::move(spec));
    }
    return specs;
  }

  void addTo(launch::Watch& watch) {
    if (scrape_) scrape_->addTo(watch);
  }

  void sample(std::span<const launch::Processes::One> all) {
    const double now = inSecondsSince(began_);
    const bool thorough = samples_ % (samples_ < kOftenUntil ? kOften : kSeldom) == 0;
    ++samples_;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].pid <= 0) continue;
      if (i >= samplers_.size()) samplers_.emplace_back(all[i].pid, job_.rootRole);
      samplers_[i].sample(now, thorough);
    }
    if (job_.slowed >= 0) slow();
    if (result_.trainingFrom == 0 && std::filesystem::exists(job_.directory + "/steps.jsonl")) {
      result_.trainingFrom = now;
    }
  }

  void scrape() {
    if (scrape_) {
      auto done = scrape_->done();
      if (!done) return;
      scrape_.reset();
      if (done->ok()) take(readPage(**done));
    }
    if (port_ == 0 || steady_clock::now() < nextScrape_) return;
    const std::chrono::milliseconds pause =
        inSecondsSince(began_) < kSoon ? kScrapeSoon : kScrapeEvery;
    nextScrape_ = steady_clock::now() + pause;
    auto begun = Scrape::begin(port_, Deadline::after(kScrapeLimit));
    if (begun.ok()) scrape_.emplace(*std::move(begun));
  }

  void finish() {
    for (std::size_t copy = 0; copy < samplers_.size(); ++copy) {
      for (UseSample use : samplers_[copy].uses()) {
        // Copies are single workers: each is a worker of its own.
        if (job_.copies > 1) use.rank = static_cast<int>(copy);
        result_.uses.push_back(use);
      }
      result_.samplerCost += samplers_[copy].ownCost();
    }
    if (!samplers_.empty()) result_.host = samplers_.front().host();
    result_.seconds = inSecondsSince(began_);
  }

 private:
  // Stops a worker in every other tenth of a second. It goes on in the end, whatever happens:
  // nothing ends a process that is stopped but SIGKILL, which the guardian sends if it must.
  void slow() {
    const pid_t pid = samplers_.empty() ? 0 : samplers_.front().processOf("worker", job_.slowed);
    if (pid > 0) kill(pid, samples_ % 2 == 0 ? SIGSTOP : SIGCONT);
  }

  void take(std::vector<Counters> counters) {
    RunResult::Count count{.seconds = inSecondsSince(began_)};
    for (const Counters& each : counters) {
      if (each.role != "worker") continue;
      count.samples += each.of("colla_samples_total");
      count.steps += each.of("colla_steps_total");
    }
    if (job_.script && count.samples == 0 && count.steps > 0) {
      result_.batches = true;
      count.samples = count.steps;
    }
    // At its end a process answers no more: the page before it says more.
    const bool whole = std::ranges::all_of(
        counters, [](const Counters& each) { return each.of("colla_up") == 1; });
    if (!whole && !result_.counters.empty()) return;
    if (job_.script && count.samples > 0) {
      if (result_.counts.empty()) result_.trainingFrom = count.seconds;
      result_.counts.push_back(count);
    }
    result_.counters = std::move(counters);
    result_.countedAt = count.seconds;
  }

  const RunJob& job_;
  RunResult& result_;
  const TimePoint began_ = steady_clock::now();
  std::vector<std::ofstream> outputs_;
  std::vector<Sampler> samplers_;
  std::optional<Scrape> scrape_;
  TimePoint nextScrape_ = TimePoint::min();
  int port_ = 0;
  long samples_ = 0;
};

void fail(RunResult& result, std::string error) {
  result.status = "failed";
  std::ranges::replace(error, '\n', ' ');
  result.error = std::move(error);
}

// What the training has written.
void gather(const RunJob& job, RunResult& result) {
  result.status = "done";
  if (job.script) {
    if (result.counts.size() < 2) {
      fail(result,
           "it counted no steps while it ran (colla_steps_total), or ended too soon to be seen");
    }
    return;
  }
  for (int copy = 0; copy < job.copies; ++copy) {
    const std::string folder = folderOf(job, copy);
    auto curve = readCurve(folder + "/steps.jsonl", folder + "/training/log.txt", job.inStep);
    if (!curve.ok() && job.brief) return;
    if (!curve.ok()) return fail(result, std::string(curve.status().message()));
    if (job.warmUp > 0) curve->warmUp = job.warmUp;
    result.curves.push_back(*std::move(curve));
  }
}

}  // namespace

std::string pathOfColla() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

Runner::Runner() : inherited_(launch::Inherited::current()) {}

bool Runner::interrupted() {
  if (signal_ == 0) signal_ = signals_.take();
  return signal_ != 0;
}

Result<RunResult> Runner::run(const RunJob& job, const std::function<void()>& tick) {
  RunResult result;
  result.command = job.command.text();
  std::error_code error;
  std::filesystem::remove_all(job.directory, error);
  std::filesystem::create_directories(job.directory, error);
  if (error) {
    return {StatusCode::kIo, fmt::format("cannot make {}: {}", job.directory, error.message())};
  }
  const Deadline deadline = Deadline::after(job.limit);
  Watched watched(job, result);
  COLLA_TRY_ASSIGN(const auto processes, launch::Processes::start(watched.specs(), inherited_));
  TimePoint nextSample = steady_clock::now();
  const auto failed = [&] {
    return std::ranges::find_if(processes->all(), &launch::Processes::One::failed);
  };
  while (!processes->allEnded() && failed() == processes->all().end()) {
    if (interrupted()) {
      processes->askToEnd();
      return {StatusCode::kCancelled, "interrupted"};
    }
    if (deadline.expired()) {
      processes->askToEnd();
      fail(result, fmt::format("it had not ended after {} s", job.limit.count()));
      break;
    }
    launch::Watch watch;
    processes->addTo(watch);
    watched.addTo(watch);
    watch.add(signals_.fd(), [&] { (void)interrupted(); });
    watch.wait(std::max<std::chrono::nanoseconds>(nextSample - steady_clock::now(), 0ns));
    if (steady_clock::now() < nextSample) continue;
    nextSample = std::max(nextSample + kInterval, steady_clock::now());
    watched.sample(processes->all());
    watched.scrape();
    tick();
  }
  watched.finish();
  if (const auto culprit = failed(); result.status.empty() && culprit != processes->all().end()) {
    fail(result, lastWords(*culprit));
  }
  if (result.status.empty()) gather(job, result);
  return result;
}

double samplesPerSecond(const RunResult& run) {
  double sum = 0;
  for (const Curve& curve : run.curves) {
    const double step = secondsPerStep(curve);
    if (step > 0) sum += curve.samplesPerStep / step;
  }
  if (!run.curves.empty() || run.counts.size() < 2) return sum;
  // The first tenth of a script's time is warm-up.
  const auto& last = run.counts.back();
  const double from =
      run.counts.front().seconds + 0.1 * (last.seconds - run.counts.front().seconds);
  const auto first = std::ranges::find_if(
      run.counts, [&](const RunResult::Count& count) { return count.seconds >= from; });
  const double seconds = last.seconds - first->seconds;
  return seconds > 0 ? (last.samples - first->samples) / seconds : 0;
}

double coresInUse(const RunResult& run) {
  // Sums over all processes at one time, of the samples while it trained.
  std::map<double, double> busy;
  for (const UseSample& use : run.uses) {
    if (use.seconds >= run.trainingFrom) busy[use.seconds] += use.user + use.system;
  }
  if (busy.size() < 2) return 0;
  const auto first = busy.begin();
  const auto last = std::prev(busy.end());
  return (last->second - first->second) / (last->first - first->first);
}

double otherCores(const RunResult& run) {
  const HostSample* first = nullptr;
  const HostSample* last = nullptr;
  for (const HostSample& sample : run.host) {
    if (sample.seconds < run.trainingFrom) continue;
    if (first == nullptr) first = &sample;
    last = &sample;
  }
  if (first == nullptr || last->seconds <= first->seconds) return 0;
  const double all = (last->busy - first->busy) / (last->seconds - first->seconds);
  return std::max(0.0, all - coresInUse(run));
}

double peakMemory(const RunResult& run, const std::string& role) {
  std::map<double, double> memory;
  for (const UseSample& use : run.uses) {
    if (role.empty() || use.role == role) memory[use.seconds] += use.proportional;
  }
  double most = 0;
  for (const auto& [seconds, bytes] : memory) most = std::max(most, bytes);
  return most;
}

}  // namespace colla::study
