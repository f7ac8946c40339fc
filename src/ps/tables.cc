// Increments are gradients of a descent with rate 1, negated: a negation is exact, and what servers
// know how to sum, check and apply serves here too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/check.h"
#include "base/log.h"
#include "colla/table.h"
#include "collective/rows.h"
#include "ps/client.h"
#include "ps/client_options.h"

namespace colla {
namespace {

Status noRow(const std::string& name, std::int64_t row, std::int64_t rows) {
  return {StatusCode::kInvalidArgument,
          fmt::format("row {} of table \"{}\", which has {}", row, name, rows)};
}

Status wrongSize(const std::string& name, std::size_t size, std::size_t wanted) {
  return {StatusCode::kInvalidArgument,
          fmt::format("{} numbers for rows of table \"{}\" that have {}", size, name, wanted)};
}

Status notFinite(const std::string& name, std::int64_t row) {
  return {StatusCode::kInvalidArgument,
          fmt::format("a change of \"{}\" is not finite in row {}", name, row)};
}

}  // namespace

struct Table::State {
  TableOptions options;
  int entry = 0;
  ps::Client* client = nullptr;
  // What this worker knows of the servers' values, and the clock that it is of. Dense tables are in
  // the client's area instead.
  std::map<std::int64_t, std::vector<float>> known;
  // What it has added since the last clock.
  std::map<std::int64_t, std::vector<float>> added;

  std::span<float> dense(std::span<std::byte> area) const {
    return {reinterpret_cast<float*>(area.data() + client->layout().offsetOf(entry)),
            static_cast<std::size_t>(options.rows) * options.width};
  }
  Status check(std::span<const std::int64_t> rows, std::size_t values) const {
    for (const std::int64_t row : rows) {
      if (row < 0 || row >= options.rows) return noRow(options.name, row, options.rows);
    }
    if (values != rows.size() * options.width) {
      return wrongSize(options.name, values, rows.size() * options.width);
    }
    return {};
  }
};

struct Tables::State {
  std::unique_ptr<ps::Client> client;
  std::vector<std::unique_ptr<Table>> tables;
  std::int64_t behind = 0;
};

Table::Table(std::unique_ptr<State> state) : state_(std::move(state)) {}
Table::~Table() = default;

const std::string& Table::name() const { return state_->options.name; }
std::int64_t Table::rows() const { return state_->options.rows; }
std::size_t Table::width() const { return state_->options.width; }

Status Table::get(std::int64_t row, std::span<float> values) {
  return get(std::span(&row, 1), values);
}

Status Table::get(std::span<const std::int64_t> rows, std::span<float> values) {
  State& state = *state_;
  COLLA_TRY(state.check(rows, values.size()));
  const std::size_t width = state.options.width;
  if (!state.options.dense) {
    std::vector<std::int64_t> missing;
    for (const std::int64_t row : rows) {
      if (state.known.try_emplace(row).second) missing.push_back(row);
    }
    std::vector<float> pulled(missing.size() * width);
    const Status status = state.client->pullRows(state.entry, missing, pulled);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      if (!status.ok()) {
        state.known.erase(missing[i]);
      } else {
        state.known[missing[i]].assign(
            pulled.begin() + static_cast<std::ptrdiff_t>(i * width),
            pulled.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
      }
    }
    COLLA_TRY(status);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<float> out = values.subspan(i * width, width);
    const float* const from = state.options.dense ? state.dense(state.client->area()).data() +
                                                        static_cast<std::size_t>(rows[i]) * width
                                                  : state.known[rows[i]].data();
    std::copy_n(from, width, out.data());
    const auto own = state.added.find(rows[i]);
    if (own == state.added.end()) continue;
    for (std::size_t j = 0; j < width; ++j) out[j] += own->second[j];
  }
  return {};
}

Status Table::inc(std::int64_t row, std::span<const float> changes) {
  return batchInc(std::span(&row, 1), changes);
}

Status Table::batchInc(std::span<const std::int64_t> rows, std::span<const float> changes) {
  State& state = *state_;
  COLLA_TRY(state.check(rows, changes.size()));
  const std::size_t width = state.options.width;
  const auto bad = std::ranges::find_if(changes, [](float one) { return !std::isfinite(one); });
  if (bad != changes.end()) {
    const auto place = static_cast<std::size_t>(bad - changes.begin());
    return notFinite(state.options.name, rows[place / width]);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& sum = state.added.try_emplace(rows[i], width, 0.0f).first->second;
    for (std::size_t j = 0; j < width; ++j) sum[j] += changes[i * width + j];
  }
  return {};
}

Tables::Tables(std::unique_ptr<State> state) : state_(std::move(state)) {}

Tables::~Tables() {
  if (const Status status = state_->client->leave(); !status.ok()) {
    log::warn("leaving the servers: {}", status.message());
  }
}

Result<std::unique_ptr<Tables>> Tables::open(Job& job, std::vector<TableOptions> tables,
                                             const TablesOptions& options) {
  if (job.role() != Role::kWorker || job.servers() == 0) {
    return {StatusCode::kInvalidArgument,
            "tables are for workers of a job with servers: start it with colla run --ps 1, and let "
            "servers call colla::serve()"};
  }
  const int workers = job.epoch().workers();
  ps::Declaration declaration;
  for (const TableOptions& table : tables) {
    declaration.entries.push_back({.name = table.name,
                                   .kind = table.dense ? ps::Kind::kParameter : ps::Kind::kRows,
                                   .type = DataType::kFloat32,
                                   .shape = {table.rows, static_cast<std::int64_t>(table.width)}});
  }
  declaration.layout.servers = job.servers();
  declaration.optimizer = Sgd{.lr = 1};
  declaration.policy = {
      .consistency = ps::Consistency::kSsp, .workers = workers, .staleness = options.staleness};
  for (int worker = 0; worker <= workers; ++worker) declaration.firstSlices.push_back(worker);
  COLLA_TRY_ASSIGN(auto client, ps::Client::connect(ps::clientOptions(job), declaration));
  auto state = std::make_unique<State>();
  for (std::size_t i = 0; i < tables.size(); ++i) {
    auto table = std::make_unique<Table::State>();
    table->options = std::move(tables[i]);
    table->entry = static_cast<int>(i);
    table->client = client.get();
    state->tables.push_back(std::unique_ptr<Table>(new Table(std::move(table))));
  }
  if (job.epoch().rank() == 0) {
    COLLA_TRY(client->start(0, std::vector<std::int64_t>(declaration.entries.size())));
  }
  COLLA_TRY(client->begin().status());
  state->client = std::move(client);
  return std::unique_ptr<Tables>(new Tables(std::move(state)));
}

Table& Tables::table(std::string_view name) {
  const auto found = std::ranges::find_if(state_->tables,
                                          [&](const auto& table) { return table->name() == name; });
  COLLA_CHECK(found != state_->tables.end());
  return **found;
}

Status Tables::clock() {
  ps::Client& client = *state_->client;
  ps::Finish finish;
  bool areaChanged = false;
  for (const auto& table : state_->tables) {
    Table::State& t = *table->state_;
    finish.present.push_back(t.added.empty() ? 0 : 1);
    const std::size_t width = t.options.width;
    if (t.options.dense) {
      const std::span<float> gradient = t.dense(client.partial(0));
      std::ranges::fill(gradient, 0.0f);
      for (const auto& [row, changes] : t.added) {
        for (std::size_t j = 0; j < width; ++j) {
          gradient[static_cast<std::size_t>(row) * width + j] = -changes[j];
        }
      }
      areaChanged = true;
    } else if (!t.added.empty()) {
      collective::Rows rows;
      for (const auto& [row, changes] : t.added) {
        rows.rows.push_back(row);
        for (const float change : changes) rows.values.push_back(-change);
      }
      COLLA_TRY(client.pushRows(t.entry, std::span(&rows, 1)));
    }
  }
  for (int block = 0; areaChanged && block < static_cast<int>(client.layout().blocks().size());
       ++block) {
    client.push(block);
  }
  COLLA_TRY_ASSIGN(const ps::Turn turn, client.finish(finish));
  state_->behind = turn.behind;
  for (const auto& table : state_->tables) {
    table->state_->added.clear();
    table->state_->known.clear();
  }
  return {};
}

std::int64_t Tables::behind() const { return state_->behind; }

}  // namespace colla
