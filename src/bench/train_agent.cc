#include "bench/train_agent.h"

#include <fmt/format.h>

#include <exception>
#include <sstream>

namespace colla::bench {
namespace {

Result<std::string> obey(Trainee& trainee, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "prepare") {
    TrainPoint point;
    words >> point.model >> point.samples >> point.batch >> point.share >> point.rate >> std::ws;
    std::getline(words, point.path);
    COLLA_TRY(trainee.prepare(point));
    return std::string("ok");
  }
  long steps = 0;
  words >> steps;
  if (verb == "verify") {
    COLLA_TRY_ASSIGN(const double loss, trainee.verify(steps));
    return fmt::format("ok {:.9g}", loss);
  }
  if (verb == "measure") {
    COLLA_TRY_ASSIGN(const double seconds, trainee.measure(steps));
    return fmt::format("ok {:.9f}", seconds);
  }
  return {StatusCode::kInvalidArgument, fmt::format("\"{}\" means nothing to an agent", line)};
}

// One line, as the protocol wants it.
std::string firstLine(const char* text) {
  std::string line(text);
  return line.substr(0, line.find('\n'));
}

}  // namespace

std::string toLine(const TrainPoint& point) {
  return fmt::format("prepare {} {} {} {} {} {}", point.model, point.samples, point.batch,
                     point.share, point.rate, point.path);
}

Status serveTrainAgent(const AgentPlace& place, Trainee& trainee) {
  return serveLines(place, [&](const std::string& line) -> Result<std::string> {
    try {
      return obey(trainee, line);
    } catch (const std::exception& error) {  // libtorch throws.
      return {StatusCode::kInternal, firstLine(error.what())};
    }
  });
}

}  // namespace colla::bench
