// The command line of a training: flags that become TrainOptions, an optimizer and settings.
#pragma once

#include <optional>
#include <string>

#include "base/command_line.h"
#include "colla/trainer.h"
#include "launch/cluster_flags.h"
#include "launch/host_flags.h"

namespace colla::train {

class Flags {
 public:
  // `app` must outlive it, and this must stay where it is: the flags point here.
  explicit Flags(CLI::App& app);
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // After parse() and cluster().enter(): some depend on how many workers there are. `resumes`: as
  // if --resume were given. kInvalidArgument for values that can't be.
  Result<TrainOptions> options(const Config& config, bool resumes = false) const;
  // kInvalidArgument if there is a flag that an evaluation has no use for.
  Status checkEvaluation() const;
  Result<Config> config() const { return settings_->load(); }
  // The lists of all processes, for a job without a launcher.
  const launch::ClusterFlags& cluster() const { return *cluster_; }
  // Where the workers run. kInvalidArgument for hosts that can't be.
  Result<launch::RunOptions> where(const TrainOptions& options) const;
  // What the flags say of the optimizer replaces the program's own choice.
  Status applyTo(Optimizer& optimizer) const;

 private:
  void addTraining(CLI::App& app);
  void addServers(CLI::App& app);
  void addLocalSgd(CLI::App& app);
  void addOptimizer(CLI::App& app);
  void addRun(CLI::App& app);
  Status readServers(const Config& config, TrainOptions& options) const;

  const CLI::App& app_;
  // Made last: --help tells of training first.
  std::optional<launch::HostFlags> hosts_;
  std::optional<launch::ClusterFlags> cluster_;
  std::optional<SettingFlags> settings_;
  TrainOptions options_;
  std::string strategy_;
  std::string schedule_;
  std::string resume_;
  std::string seed_;
  std::string keep_;
  std::string earlyStop_;
  std::string optimizer_;
  std::optional<double> lr_;
  std::optional<double> momentum_;
  std::optional<double> weightDecay_;
  std::optional<int> servers_;
  std::string backup_;
  std::string partitions_;
  std::optional<int> aggregate_;
  std::optional<int> replicas_;
  bool noShuffle_ = false;
  bool noEvaluation_ = false;
  bool noNanGuard_ = false;
  const CLI::Option* resumeOption_;
  const CLI::Option* epochsOption_;
  const CLI::Option* earlyStopOption_;
  const CLI::Option* keepBestOption_;
};

// In --help: what `task` has where the flags say nothing.
void showDefaults(CLI::App& app, const Task& task);

}  // namespace colla::train
