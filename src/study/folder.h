// The directory of a study: what it is (study.json), a folder for each run, and the report.
//
//   DIR/study.json            options, plan, machine: enough to go on with --resume
//   DIR/runs/ID/REPEAT/       what a run has said and written; result.json once it is over
//   DIR/peers/                programs of peers, if the study has some
//   DIR/report.json, *.csv, report.html
#pragma once

#include <optional>
#include <string>

#include "colla/status.h"
#include "study/report.h"

namespace colla::study {

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  // Makes it. kInvalidArgument if it can't be written, or holds something else.
  Status create() const;
  // The study that is there. kInvalidArgument if there is none, or it is broken.
  Result<Study> load() const;
  Status save(const Study& study) const;

  const std::string& path() const { return path_; }
  std::string runs() const { return path_ + "/runs"; }
  std::string peers() const { return path_ + "/peers"; }
  std::string runOf(const std::string& variant, int repeat) const;
  // The result of a run that is over; nothing if there is none, or it is broken.
  std::optional<RunResult> result(const std::string& variant, int repeat) const;
  Status saveResult(const RunResult& run) const;
  // Checkpoints of a run; its log stays.
  void removeCheckpoints(const std::string& variant, int repeat) const;

 private:
  std::string path_;
};

}  // namespace colla::study
