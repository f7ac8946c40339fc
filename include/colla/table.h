// Tables of numbers on parameter servers, for programs whose model is no network: matrix
// factorisation, topic models, regression.
//
//   colla::Status train(colla::Job& job) {
//     if (job.role() == colla::Role::kServer) return colla::serve(job);
//     COLLA_TRY_ASSIGN(const auto tables,
//                      colla::Tables::open(job, {{.name = "users", .rows = 1000, .width = 16}},
//                                          {.staleness = 2}));
//     colla::Table& users = tables->table("users");
//     std::vector<float> values(16);
//     COLLA_TRY(users.get(7, values));  // What all workers have added, at most 2 clocks behind.
//     COLLA_TRY(users.inc(7, values));  // Seen by this worker at once, by others after clock().
//     return tables->clock();           // May wait for workers that are too far behind.
//   }
//
//   int main() {
//     const auto job = colla::Job::init({.serves = true});
//     return job.ok() && train(**job).ok() ? 0 : 1;
//   }
//
// Every worker opens the same tables. `colla run -np 4 --ps 1 -- PROGRAM` starts them.
//
// To be used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/job.h"
#include "colla/server.h"
#include "colla/status.h"

namespace colla {

struct TableOptions {
  std::string name;
  std::int64_t rows = 0;
  std::size_t width = 1;  // Numbers in a row.
  // Workers hold all of it, and exchange all of it in every clock. Otherwise they ask for the rows
  // that they read, and send the rows that they changed.
  bool dense = false;
};

struct TablesOptions {
  // How many clocks a worker may be ahead of the slowest. 0: in each clock everybody sees what all
  // have added until then, in the same bits whatever the order of arrival.
  std::int64_t staleness = 0;
};

class Table {
 public:
  const std::string& name() const;
  std::int64_t rows() const;
  std::size_t width() const;

  // A row's values: of the servers, as of this clock, with this worker's own changes since.
  // kInvalidArgument for a row that is not there.
  Status get(std::int64_t row, std::span<float> values);
  // The same for several at once, one behind the other: one question to the servers, not many.
  Status get(std::span<const std::int64_t> rows, std::span<float> values);

  // Adds `changes` to a row. Nothing is added if one of them is not finite.
  Status inc(std::int64_t row, std::span<const float> changes);
  // The same for several rows, whose changes are one behind the other; a row may come again.
  Status batchInc(std::span<const std::int64_t> rows, std::span<const float> changes);

 private:
  friend class Tables;
  struct State;
  explicit Table(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;

 public:
  ~Table();
};

class Tables {
 public:
  // All values are 0 at first. Every worker calls it with the same.
  static Result<std::unique_ptr<Tables>> open(Job& job, std::vector<TableOptions> tables,
                                              const TablesOptions& options = {});
  // Leaves the servers, which end when every worker has.
  ~Tables();
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // One of those that were opened.
  Table& table(std::string_view name);

  // Ends this worker's clock: sends what it has added since the last one. Returns once no worker is
  // more than `staleness` clocks behind this one. After an error the tables are of no use any more.
  Status clock();
  // How many clocks the slowest worker was behind this one when clock() last returned: what a get()
  // now may lack of the others' changes.
  std::int64_t behind() const;

 private:
  struct State;
  explicit Tables(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace colla
