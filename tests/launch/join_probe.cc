// A program that finds its place and meets its peers in the store, and says so. With the argument
// "absent" rank 1 does not come, and the others say whom they wait for.
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "job/environment.h"
#include "job/store_identity.h"
#include "rendezvous/membership.h"
#include "rendezvous/secret.h"
#include "rendezvous/store.h"

using namespace colla;
using namespace std::chrono_literals;

namespace {

int fail(const Status& status) {
  fmt::print(stderr, "{}\n", toString(status));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto place = job::readEnvironment([](const char* name) { return std::getenv(name); });
  if (!place.ok()) return fail(place.status());
  const bool absent = argc > 1 && std::string_view(argv[1]) == "absent";
  if (absent && place->rank == 1) return 0;

  const auto secret = rendezvous::loadSecret(place->secretHex.c_str(), place->secretFile);
  if (!secret.ok()) return fail(secret.status());
  rendezvous::StoreOptions options;
  options.address = place->store;
  options.jobId = place->jobId;
  options.secret = *secret;
  options.identity = job::storeIdentity();
  const Deadline deadline = Deadline::after(20s);
  const auto store = rendezvous::Store::connect(options, deadline);
  if (!store.ok()) return fail(store.status());

  rendezvous::Member self;
  self.role = place->role;
  self.rank = place->rank;
  self.host = place->host;
  rendezvous::Expected expected;
  expected.workers = place->size;
  expected.servers = place->servers;
  const auto members = rendezvous::join(**store, place->epoch, self, expected, deadline,
                                        [&](const std::string& news) {
                                          fmt::print("{}\n", news);
                                          std::exit(0);
                                        },
                                        {.first = absent ? 100ms : 20'000ms});
  if (!members.ok()) return fail(members.status());
  fmt::print("met {}\n", members->members.size());
  return 0;
}
