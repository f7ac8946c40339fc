// Writes scalars that TensorBoard shows: one events.out.tfevents.TIME.HOST file per run of a
// process. TensorBoard reads all of a directory's files in the order of their names.
//
// A record costs about a microsecond; the file is written out every few seconds, so a crash loses
// no more than those. Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "colla/status.h"
#include "observe/append_file.h"
#include "observe/step.h"

namespace colla::observe {

class EventWriter {
 public:
  using WallTime = std::chrono::system_clock::time_point;
  struct Options {
    // The last step done before: TensorBoard then forgets what earlier files say of later ones.
    std::int64_t resumedStep = 0;
    std::chrono::milliseconds flushEvery{5000};
    const Clock* clock = &Clock::real();  // For flushing.
  };

  // Makes `directory` if it is missing, and a new file in it.
  static Result<EventWriter> create(const std::string& directory, const Options& options);
  static Result<EventWriter> create(const std::string& directory) {
    return create(directory, Options());
  }

  const std::string& path() const { return file_.path(); }
  // TensorBoard keeps values as 32-bit floats.
  Status scalar(std::string_view tag, std::int64_t step, double value,
                WallTime wallTime = std::chrono::system_clock::now());
  // Several at once, each under `prefix` + its name ("train/" + "loss").
  Status scalars(std::string_view prefix, std::int64_t step, Metrics metrics,
                 WallTime wallTime = std::chrono::system_clock::now());
  Status flush() { return file_.flush(); }
  Status close() { return file_.close(); }

 private:
  explicit EventWriter(AppendFile file) : file_(std::move(file)) {}
  Status writeEvent();

  AppendFile file_;
  // Kept for their memory.
  std::string tag_;
  std::string event_;
  std::string record_;
};

}  // namespace colla::observe
