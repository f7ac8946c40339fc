// What the processes of a run have counted, from the page that the run serves (docs/metrics.md).
//
// A Scrape asks for a page without waiting: it is one socket among others that a loop waits for.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"
#include "launch/processes.h"

namespace colla::study {

// Of one process.
struct Counters {
  std::string role;
  int rank = 0;
  // By the metric's name and, in braces, the value of its own label: "colla_steps_total",
  // "colla_exchange_seconds_total{hidden}". Buckets of histograms are left out.
  std::map<std::string, double> values;

  double of(const std::string& name) const;
  // The sum over all values of the metric's label.
  double sumOf(std::string_view name) const;
};

// Reads a page in Prometheus' text format; lines that it does not know are passed over.
std::vector<Counters> readPage(std::string_view page);

// "http://127.0.0.1:9400/metrics" in a line that a run has said; 0 if there is none, else the port.
int portIn(std::string_view line);

class Scrape {
 public:
  // Asks the server at 127.0.0.1:port.
  static Result<Scrape> begin(int port, Deadline deadline);
  void addTo(launch::Watch& watch);
  // The page, once it is whole; an error once it can't be.
  std::optional<Result<std::string>> done();

 private:
  Scrape(UniqueFd socket, Deadline deadline, std::string request)
      : socket_(std::move(socket)), deadline_(deadline), request_(std::move(request)) {}
  void advance();

  UniqueFd socket_;
  Deadline deadline_;
  std::string request_;  // What is left of it.
  std::string answer_;
  bool ended_ = false;
  bool failed_ = false;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Counters, role, rank, values)

}  // namespace colla::study
