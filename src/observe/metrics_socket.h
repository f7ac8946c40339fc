// How the metrics of one process reach the one that serves them for the whole job.
//
// Every process listens on an abstract Unix socket and hands its page to whoever connects, if that
// is the same user. Nothing of such a socket is left when its process is gone, however it went.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"
#include "observe/metrics_page.h"

namespace colla::observe {

// Of a process of a job on this host; without the leading zero byte.
std::string metricsSocketName(std::string_view jobId, const ProcessLabels& labels);

class MetricsSocket {
 public:
  // `page` is called on a thread of the socket's own, once for each reader. kIo when the name is
  // taken.
  static Result<std::unique_ptr<MetricsSocket>> serve(const std::string& name,
                                                      std::function<std::string()> page);
  ~MetricsSocket();
  MetricsSocket(const MetricsSocket&) = delete;
  MetricsSocket& operator=(const MetricsSocket&) = delete;

 private:
  MetricsSocket(UniqueFd listener, UniqueFd stop, std::function<std::string()> page);
  void serveOnThread();

  const UniqueFd listener_;
  const UniqueFd stop_;
  const std::function<std::string()> page_;
  std::thread thread_;
};

struct MetricsSource {
  ProcessLabels labels;
  std::string socket;
};

// Time that a process has to answer. A busy host may need a second or two for it; a scrape with a
// stopped process should still end well before the ten seconds that Prometheus waits.
inline constexpr std::chrono::seconds kScrapeLimit{3};

// The pages of `sources`, asked for at the same time, and `colla_up` of each: 0 for those that have
// not answered by the deadline.
std::vector<std::string> collectPages(std::span<const MetricsSource> sources, Deadline deadline);

}  // namespace colla::observe
