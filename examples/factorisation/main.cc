// Matrix factorisation with stale synchronous tables: no network, no libtorch.
//
//   colla run -np 2 --ps 1 -- ./factorisation [EPOCHS [STALENESS]]
//
// Ratings of users for items are made of hidden factors and a little noise. Each worker has its
// share of the ratings; the factors live in two tables. Worker 0 prints the error after every
// epoch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "colla/cluster_flags.h"
#include "colla/collectives.h"
#include "colla/job.h"
#include "colla/server.h"
#include "colla/table.h"

namespace {

constexpr int kUsers = 200;
constexpr int kItems = 120;
constexpr std::size_t kFactors = 4;
constexpr float kRate = 0.05f;
constexpr float kDecay = 0.01f;

struct Rating {
  std::int64_t user;
  std::int64_t item;
  float value;
};

// Worker `rank` of `size` has every size-th of them.
std::vector<Rating> ratingsOf(int rank, int size) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.7f);
  std::vector<float> users(kUsers * kFactors);
  std::vector<float> items(kItems * kFactors);
  for (float& value : users) value = normal(random);
  for (float& value : items) value = normal(random);
  std::vector<Rating> mine;
  for (int i = 0; i < 6000; ++i) {
    const auto user = static_cast<std::int64_t>(random() % kUsers);
    const auto item = static_cast<std::int64_t>(random() % kItems);
    float value = 0.05f * normal(random);
    for (std::size_t f = 0; f < kFactors; ++f) {
      value += users[static_cast<std::size_t>(user) * kFactors + f] *
               items[static_cast<std::size_t>(item) * kFactors + f];
    }
    if (i % size == rank) mine.push_back({user, item, value});
  }
  return mine;
}

colla::Status train(colla::Job& job, int epochs, std::int64_t staleness) {
  COLLA_TRY_ASSIGN(const auto tables,
                   colla::Tables::open(job,
                                       {{.name = "users", .rows = kUsers, .width = kFactors},
                                        {.name = "items", .rows = kItems, .width = kFactors}},
                                       {.staleness = staleness}));
  colla::Table& users = tables->table("users");
  colla::Table& items = tables->table("items");
  // All zero would stay so: worker 0 adds small numbers to begin with.
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.3f);
  for (colla::Table* table : {&users, &items}) {
    for (std::int64_t row = 0; job.rank() == 0 && row < table->rows(); ++row) {
      std::vector<float> first(kFactors);
      for (float& value : first) value = normal(random);
      COLLA_TRY(table->inc(row, first));
    }
  }
  for (std::int64_t i = 0; i <= staleness; ++i) COLLA_TRY(tables->clock());  // Now all have them.

  const std::vector<Rating> ratings = ratingsOf(job.rank(), job.size());
  constexpr std::size_t kBatch = 50;
  std::vector<float> user(kFactors);
  std::vector<float> item(kFactors);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double squares = 0;
    for (std::size_t first = 0; first < ratings.size(); first += kBatch) {
      const std::size_t end = std::min(first + kBatch, ratings.size());
      for (std::size_t i = first; i < end; ++i) {
        const Rating& rating = ratings[i];
        COLLA_TRY(users.get(rating.user, user));
        COLLA_TRY(items.get(rating.item, item));
        float error = rating.value;
        for (std::size_t f = 0; f < kFactors; ++f) error -= user[f] * item[f];
        squares += static_cast<double>(error) * error;
        std::vector<float> userChange(kFactors);
        std::vector<float> itemChange(kFactors);
        for (std::size_t f = 0; f < kFactors; ++f) {
          userChange[f] = kRate * (error * item[f] - kDecay * user[f]);
          itemChange[f] = kRate * (error * user[f] - kDecay * item[f]);
        }
        COLLA_TRY(users.inc(rating.user, userChange));
        COLLA_TRY(items.inc(rating.item, itemChange));
      }
      COLLA_TRY(tables->clock());
    }
    std::vector<double> sums = {squares, static_cast<double>(ratings.size())};
    COLLA_TRY(colla::allreduce(job.world(), sums));
    if (job.rank() == 0) {
      std::printf("epoch %d: root mean square error %.4f, %lld clocks behind\n", epoch + 1,
                  std::sqrt(sums[0] / sums[1]), static_cast<long long>(tables->behind()));
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const colla::Status place = colla::takeClusterFlags(argc, argv);
  if (!place.ok()) {
    std::fprintf(stderr, "factorisation: %s\n", colla::toString(place).c_str());
    return 2;
  }
  const auto job = colla::Job::init({.serves = true});
  const int epochs = argc > 1 ? std::atoi(argv[1]) : 10;
  const std::int64_t staleness = argc > 2 ? std::atoll(argv[2]) : 2;
  const colla::Status status = !job.ok() ? job.status()
                               : (*job)->role() == colla::Role::kServer
                                   ? colla::serve(**job)
                                   : train(**job, epochs, staleness);
  if (status.ok()) return 0;
  std::fprintf(stderr, "factorisation: %s\n", colla::toString(status).c_str());
  return 1;
}
