#include "bench/push.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "bench/agent.h"
#include "bench/machine.h"
#include "bench/systems.h"
#include "colla/collectives.h"
#include "colla/job.h"
#include "colla/server.h"
#include "ps/client_options.h"

namespace colla::bench {
namespace {

// A worker of a job with servers. A step's gradient is rank + 1 everywhere, the rate is 1.
class PushWorkload : public Workload {
 public:
  explicit PushWorkload(Job& job) : job_(job) {}

  Status prepare(const std::string& bytes) override {
    const std::int64_t count = std::atoll(bytes.c_str()) / std::int64_t{sizeof(float)};
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
  Result<double> verify(long steps) override {
    COLLA_TRY(run(steps));
    const auto workers = static_cast<float>(job_.size());
    const float wanted = -static_cast<float>(steps) * workers * (workers + 1) / 2;
    for (const float value : floats(client_->area())) {
      if (value == wanted) continue;
      return {StatusCode::kInternal,
              fmt::format("wrong result: a parameter is {}, not {}", value, wanted)};
    }
    setGradient(0);  // Later steps take as long, and parameters stay as they are.
    return 0.0;
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
class TriadWorkload : public Workload {
 public:
  Status prepare(const std::string& bytes) override {
    const auto count = static_cast<std::size_t>(std::atoll(bytes.c_str())) / sizeof(float);
    for (auto* one : {&a_, &b_, &c_}) one->assign(count, 1.0F);
    return {};
  }
  Result<double> verify(long steps) override {
    COLLA_TRY(run(steps));
    if (std::ranges::all_of(a_, [](float value) { return value == 4; })) return 0.0;
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

Status servePush(const AgentPlace& place) {
  COLLA_TRY_ASSIGN(const auto job, Job::init({.serves = true}));
  if (job->role() == Role::kServer) return serve(*job);
  PushWorkload workload(*job);
  return serveAgent(place, workload);
}

Status serveTriad(const AgentPlace& place) {
  TriadWorkload workload;
  return serveAgent(place, workload);
}

int coresHere() { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }

class PushBench : public Bench {
 public:
  PushBench(const PushOptions& options, Coordinator& coordinator)
      : Bench(options.common, coordinator), options_(options) {}

  Result<Records> run() {
    COLLA_TRY(checkRoom());
    COLLA_TRY(add(memorySystem("memory-1", 1), 3));
    if (coresHere() > 1) COLLA_TRY(add(memorySystem("memory", coresHere()), 3));
    for (const int workers : options_.workers) COLLA_TRY(add(pushSystem(workers), 2));
    RunnerOptions how = runnerOptions("push");
    how.pointLimit = std::chrono::hours(24);  // There is only this point.
    COLLA_TRY_ASSIGN(const auto outcomes, measure(contenders_, how));
    finish(outcomes);
    return std::move(records_);
  }

 private:
  // A worker has gradients and parameters, the server parameters; the memory's agents three arrays.
  Status checkRoom() const {
    std::size_t areas = 3 * (static_cast<std::size_t>(coresHere()) + 1);
    for (const int workers : options_.workers) areas += 2 * static_cast<std::size_t>(workers) + 1;
    return checkMemory(
        areas * options_.bytes,
        fmt::format("pushing {:.1f} MB from up to {} workers needs",
                    static_cast<double>(options_.bytes) / 1e6, std::ranges::max(options_.workers)),
        "fewer --workers or --bytes");
  }

  SystemSpec memorySystem(const std::string& name, int cores) {
    return forkedSystem({coordinator_, cores}, name, serveTriad);
  }

  SystemSpec pushSystem(int workers) {
    const std::string name = fmt::format("colla-push-{}", workers);
    const Stage stage{coordinator_, workers, Net::kShm, nullptr, /*servers=*/1};
    return collaJob(stage, name, "shm", [&](int rank, ProcessSpec& process) {
      const AgentPlace place{coordinator_.socketPath(), name, rank, workers};
      process.body = [place] { return exitCode(servePush(place)); };
    });
  }

  // `passes`: how often an agent's step reads or writes its bytes. bytes_per_s is that of one
  // step until finish() divides it by the time.
  Status add(const SystemSpec& spec, int passes) {
    COLLA_TRY(start(spec));
    contenders_.push_back(std::make_unique<AgentContender>(
        coordinator_, spec.name,
        AgentContender::Options{.prepare = fmt::format("{}", options_.bytes), .verifySteps = 2}));
    records_.push_back({{"part", "push"},
                        {"system", spec.name},
                        {"workers", spec.np},
                        {"bytes", options_.bytes},
                        {"step_seconds", 0.0},
                        {"bytes_per_s", static_cast<double>(options_.bytes) * spec.np * passes}});
    return {};
  }

  void finish(const std::vector<Measurement>& outcomes) {
    double memorySpeed = 0;  // Several cores reach more than one: the last of these counts.
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const double speed = records_[i]["bytes_per_s"].get<double>() / outcomes[i].seconds;
      records_[i]["step_seconds"] = outcomes[i].seconds;
      records_[i]["bytes_per_s"] = speed;
      if (records_[i]["system"].get<std::string>().starts_with("memory")) memorySpeed = speed;
    }
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      records_[i]["of_memory"] = records_[i]["bytes_per_s"].get<double>() / memorySpeed;
      addRun(records_[i], outcomes[i], "steps");
    }
  }

  const PushOptions& options_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  Records records_;
};

}  // namespace

Result<Records> measurePush(Coordinator& coordinator, const PushOptions& options) {
  return PushBench(options, coordinator).run();
}

std::string pushTable(const Records& records) {
  const auto gigabytes = [](double speed) { return numberText(speed / 1e9); };
  const auto share = [](const Record& record) {
    const bool memory = record["system"].get<std::string>().starts_with("memory");
    return memory ? "" : percentText(record["of_memory"].get<double>());
  };
  return table(records,
               {textColumn("system", "system"),
                {"workers", [](const Record& record) { return record["workers"].dump(); }},
                numberColumn("bytes", "bytes", bytesText),
                numberColumn("step", "step_seconds", durationText),
                numberColumn("GB/s", "bytes_per_s", gigabytes),
                {"of memory", share}},
               {});
}

}  // namespace colla::bench
