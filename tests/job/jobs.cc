// A process that is in several jobs:
//
//   jobs after      three of them, one after the other
//   jobs quick      the same, but who serves the store (or rank 0, under `colla run`) stays in each
//                   until all others wait in the next
//   jobs together   three that overlap
//
// Ends with 0 and says "done" if each of them adds what its ranks bring.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "colla/job.h"
#include "job/environment.h"
#include "job/store_identity.h"
#include "rendezvous/secret.h"
#include "rendezvous/store.h"

using namespace colla;
using namespace std::chrono_literals;

namespace {

// Each job adds other numbers, so that none can be taken for another.
Status add(Job& job, int number) {
  std::vector<float> data = {static_cast<float>(100 * number + job.rank())};
  COLLA_TRY(allreduce(job.world(), data, {.timeout = 20s}));
  int sum = 0;
  for (int rank = 0; rank < job.size(); ++rank) sum += 100 * number + rank;
  if (data[0] == static_cast<float>(sum)) return {};
  return {StatusCode::kInternal, "job " + std::to_string(number) + " has another sum"};
}

// Until all others have taken their place in the job after `number`.
Status awaitOthers(int number) {
  const Deadline deadline = Deadline::after(20s);
  COLLA_TRY_ASSIGN(const job::Place place,
                   job::readEnvironment([](const char* name) { return std::getenv(name); }));
  if (!place.servesStore && (place.launcher != "colla" || place.rank != 0)) return {};
  COLLA_TRY_ASSIGN(
      const std::string secret,
      rendezvous::loadSecret(place.secretHex.empty() ? nullptr : place.secretHex.c_str(),
                             place.secretFile));
  COLLA_TRY_ASSIGN(const auto store, rendezvous::Store::connect({.address = place.store,
                                                                 .jobId = place.jobId,
                                                                 .secret = secret,
                                                                 .name = "the last",
                                                                 .identity = job::storeIdentity()},
                                                                deadline));
  // The store of a launcher stays, and one of ours is new for every job.
  const int next = place.servesStore ? 1 : number + 1;
  return store->waitCount("epoch/" + std::to_string(next) + "/member/", place.size - 1, deadline)
      .status();
}

Status oneAfterTheOther(bool quick) {
  for (const int number : {0, 1, 2}) {
    COLLA_TRY_ASSIGN(const auto job, Job::init());
    COLLA_TRY(add(*job, number));
    if (quick && number < 2) COLLA_TRY(awaitOthers(number));
  }
  return {};
}

Status atTheSameTime() {
  COLLA_TRY_ASSIGN(auto first, Job::init());
  COLLA_TRY_ASSIGN(auto second, Job::init());
  COLLA_TRY(add(*second, 2));
  COLLA_TRY(add(*first, 1));
  first.reset();
  COLLA_TRY_ASSIGN(auto third, Job::init());
  COLLA_TRY(add(*third, 3));
  second.reset();
  return add(*third, 4);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string_view mode = argv[1];
  const Status status = mode == "together" ? atTheSameTime() : oneAfterTheOther(mode == "quick");
  if (!status.ok()) {
    std::cout << status << std::endl;
    return 1;
  }
  std::cout << "done" << std::endl;
  return 0;
}
