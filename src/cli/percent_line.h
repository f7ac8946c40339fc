// How far a long piece of work is, on a terminal: one line on standard error that changes, and is
// gone at the end. Nothing where that is no terminal.
#pragma once

#include <cstdint>
#include <string>

namespace colla::cli {

class PercentLine {
 public:
  // "reading: 42 %"
  explicit PercentLine(std::string what);
  ~PercentLine();
  PercentLine(const PercentLine&) = delete;
  PercentLine& operator=(const PercentLine&) = delete;

  void update(std::int64_t done, std::int64_t all);

 private:
  std::string what_;
  bool terminal_;
  int shown_ = -1;  // Percent.
};

}  // namespace colla::cli
