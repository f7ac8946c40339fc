#include "job/settings.h"

#include <array>
#include <cstdlib>
#include <string>

#include "rendezvous/secret.h"
#include "transport/transports.h"

namespace colla::job {
namespace {

using enum SettingType;

constexpr std::int64_t kMinute = 60'000'000;  // In microseconds.

}  // namespace

std::span<const Setting> settings() {
  static const std::string transports = transport::transportChoices();
  static const std::string transportHelp = transport::transportHelp();
  // Sorted by name (a test checks it).
  static const std::array table = {
      Setting{"algorithm", kText, "auto",
              "allreduce algorithm: auto, shared, levels, flat, direct, halving, tree, ring "
              "(another order)",
              true, "auto shared levels flat direct halving tree ring"},
      Setting{"collective_timeout", kSeconds, "300", "seconds that one collective may take", false},
      Setting{"cycle_us", kInteger, "0",
              "microseconds that the first named operation waits for others to travel with it",
              false, "", 0, kMinute},
      Setting{"fusion_mb", kInteger, "64",
              "MiB up to which named allreduces travel together; 0: each by itself", false, "", 0,
              65536},
      Setting{
          "hybrid", kText, "servers",
          "where hybrid's tables go: servers, or auto (to servers or by allreduce, chosen for each "
          "by the rows that the first batch reads)",
          true, "servers auto"},
      Setting{
          "interface", kText, "",
          "network interface or address to listen on; by default the one that leads to the store",
          false},
      Setting{"keep_memory", kInteger, "1",
              "1: memory that a training step frees is kept for the next one; 0: as glibc likes it",
              false, "", 0, 1},
      Setting{"log", kText, "info", "debug, info, warn, error or off", false,
              "debug info warn error off"},
      Setting{
          "metrics_address", kText, "127.0.0.1",
          "address that metrics are served at; one that is not a loopback address needs the token",
          false},
      Setting{"metrics_port", kInteger, "-1",
              "port that Prometheus can read the job's metrics from; 0: any free one; -1: none",
              false, "", -1, 65535},
      Setting{"metrics_token_file", kText, "",
              "file with the token that readers of metrics need, made if it is missing; by default "
              "~/.local/state/colla/metrics-token",
              false},
      Setting{"secret_file", kText, "",
              "file with the job's secret, needed between hosts without `colla run`", false},
      Setting{"server_threads", kInteger, "0",
              "threads of a parameter server; 0: cores / servers of its host, at most 8", false, "",
              0, 4096},
      Setting{"slices", kInteger, "0",
              "logical pieces of every global batch; 0: the number of workers at first start", true,
              "", 0, 1'000'000},
      Setting{"spin_us", kInteger, "-1",
              "microseconds to spin before a wait sleeps; -1: by ranks and cores of this host",
              false, "", -1, kMinute},
      Setting{
          "stall_shutdown", kSeconds, "0",
          "seconds after which an operation that some ranks have not come to ends all; 0: never",
          false},
      Setting{
          "stall_warning", kSeconds, "60",
          "seconds after which operations that some ranks have not come to are reported; 0: never",
          false},
      Setting{"start_timeout", kSeconds, "60", "seconds to wait for all processes at start", false},
      Setting{"tcp_connections", kInteger, "1", "TCP connections per pair of ranks, 1 to 16", true,
              "", 1, 16},
      Setting{"threads", kInteger, "0",
              "threads per worker; 0: cores / ranks of this host. Bits depend on it", true, "", 0,
              4096},
      Setting{"timeline", kText, "", "file for a trace of named operations, written by rank 0",
              false},
      Setting{"transport", kText, "auto", transportHelp, true, transports},
  };
  return table;
}

Result<Config> loadConfig(const std::map<std::string, std::string>& flags,
                          const std::string& file) {
  const char* const named = std::getenv("COLLA_CONFIG");
  COLLA_TRY_ASSIGN(Config config,
                   Config::load(settings(), flags, file.empty() && named != nullptr ? named : file,
                                [](const char* name) { return std::getenv(name); }));
  COLLA_TRY(checkSecretFile(config));
  return config;
}

Status checkSecretFile(const Config& config) {
  const auto secret = rendezvous::loadSecret(/*hex=*/nullptr, config.text("secret_file"));
  if (secret.ok()) return {};
  return {StatusCode::kInvalidArgument, std::string(secret.status().message())};
}

}  // namespace colla::job
