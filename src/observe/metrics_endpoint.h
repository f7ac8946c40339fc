// Serves a page of metrics over HTTP, for Prometheus.
//
// GET /metrics is all there is. On a loopback address anybody on the host may ask; on any other
// address every request needs the token (`Authorization: Bearer TOKEN`), and gets 401 without it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/config.h"
#include "colla/status.h"

namespace colla::observe {

class MetricsEndpoint {
 public:
  // Takes the port that the settings metrics_port, metrics_address and metrics_token_file name;
  // null where metrics_port is -1. Starts no thread and answers nothing yet. kIo when the port is
  // taken.
  static Result<std::unique_ptr<MetricsEndpoint>> open(const Config& config);
  // Ends the threads.
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  // Answers from now on; `page` is called on the endpoint's threads, several at a time. To be
  // called once.
  void start(std::function<std::string()> page);

  // "metrics at http://127.0.0.1:9400/metrics", and where the token is, if one is needed.
  std::string notice() const;

 private:
  struct Impl;
  explicit MetricsEndpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;  // Keeps httplib.h, which takes seconds to compile, out of here.
};

}  // namespace colla::observe
