#include "bench/agent.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>

#include "base/metrics.h"
#include "bench/line_socket.h"
#include "transport/transports.h"

namespace colla::bench {
namespace {

// Over transports between hosts, to all peers.
std::uint64_t messagesSent() {
  double sent = 0;
  for (const metrics::Sample& sample : metrics::Registry::ofProcess().read()) {
    if (sample.family->name != "colla_sent_messages_total") continue;
    const auto* const row = transport::findTransport(sample.labels.front());
    if (row != nullptr && row->reach == transport::Reach::kHosts) sent += sample.value();
  }
  return static_cast<std::uint64_t>(sent);
}

Result<std::string> obey(Workload& workload, const std::string& line) {
  const std::string verb = line.substr(0, line.find(' '));
  const std::string rest = line.substr(std::min(verb.size() + 1, line.size()));
  const long iterations = std::atol(rest.c_str());
  if (verb == "prepare") {
    COLLA_TRY(workload.prepare(rest));
    return std::string("ok");
  }
  if (verb == "verify") {
    COLLA_TRY_ASSIGN(const double loss, workload.verify(iterations));
    return fmt::format("ok {:.9g}", loss);
  }
  if (verb == "measure") {
    COLLA_TRY(workload.barrier());
    const auto start = std::chrono::steady_clock::now();
    COLLA_TRY(workload.run(iterations));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return fmt::format("ok {:.9f}", elapsed.count());
  }
  if (verb == "messages") return fmt::format("ok {}", messagesSent());
  return {StatusCode::kInvalidArgument, fmt::format("\"{}\" means nothing to an agent", line)};
}

Result<std::string> answerTo(Workload& workload, const std::string& line) {
  try {
    return obey(workload, line);
  } catch (const std::exception& error) {  // libtorch throws, in many lines.
    const std::string text = error.what();
    return {StatusCode::kInternal, text.substr(0, text.find('\n'))};
  }
}

}  // namespace

Status serveAgent(const AgentPlace& place, Workload& workload) {
  COLLA_TRY_ASSIGN(LineSocket coordinator, LineSocket::connect(place.socket));
  COLLA_TRY(coordinator.writeLine(fmt::format("hello {} {}", place.system, place.rank)));
  while (true) {
    const auto line = coordinator.readLine();
    if (!line.ok()) return {};  // The coordinator has hung up.
    const auto answer = answerTo(workload, *line);
    COLLA_TRY(coordinator.writeLine(answer.ok() ? *answer : "error " + toString(answer.status())));
    COLLA_TRY(answer.status());
  }
}

}  // namespace colla::bench
