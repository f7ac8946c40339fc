#include "bench/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "bench/line_socket.h"

namespace colla::bench {
namespace {

class Agent {
 public:
  Agent(const AgentPlace& place, Workload& workload) : place_(place), workload_(workload) {}

  // The answer to one line of the coordinator's.
  Result<std::string> obey(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "prepare") {
      std::string name;
      std::size_t elements = 0;
      words >> name >> elements;
      COLLA_TRY_ASSIGN(const Operation operation, parseOperation(name));
      point_ = {operation, elements};
      COLLA_TRY(workload_.prepare(point_));
      return std::string("ok");
    }
    if (verb == "verify") {
      COLLA_TRY(verify());
      return std::string("ok");
    }
    if (verb == "measure") {
      long iterations = 0;
      words >> iterations;
      COLLA_TRY_ASSIGN(const double seconds, measure(iterations));
      return fmt::format("ok {:.9f}", seconds);
    }
    return {StatusCode::kInvalidArgument, fmt::format("\"{}\" means nothing to an agent", line)};
  }

 private:
  Status verify() {
    const auto input = workload_.input();
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = inputValue(place_.rank, i);
    COLLA_TRY(workload_.run(1));
    COLLA_TRY(checkOutput(point_, place_.rank, place_.np, workload_.output()));
    // Zeros stay zeros however often they are added, and cost no less than other numbers. Nobody
    // may clear them while a slower rank still reads.
    COLLA_TRY(workload_.barrier());
    std::ranges::fill(workload_.input(), 0.0F);
    std::ranges::fill(workload_.output(), 0.0F);
    return workload_.barrier();
  }

  Result<double> measure(long iterations) {
    COLLA_TRY(workload_.barrier());
    const auto start = std::chrono::steady_clock::now();
    COLLA_TRY(workload_.run(iterations));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const AgentPlace& place_;
  Workload& workload_;
  Point point_;
};

}  // namespace

Status serveLines(const AgentPlace& place, const Obey& obey) {
  COLLA_TRY_ASSIGN(LineSocket coordinator, LineSocket::connect(place.socket));
  COLLA_TRY(coordinator.writeLine(fmt::format("hello {} {}", place.system, place.rank)));
  while (true) {
    const auto line = coordinator.readLine();
    if (!line.ok()) return {};  // It has no more questions.
    const auto answer = obey(*line);
    if (!answer.ok()) {
      COLLA_TRY(coordinator.writeLine("error " + toString(answer.status())));
      return answer.status();
    }
    COLLA_TRY(coordinator.writeLine(*answer));
  }
}

Status serveAgent(const AgentPlace& place, Workload& workload) {
  Agent agent(place, workload);
  return serveLines(place, [&](const std::string& line) { return agent.obey(line); });
}

}  // namespace colla::bench
