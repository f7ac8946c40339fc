#include "job/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/invalid.h"
#include "job/cluster.h"
#include "job/slurm.h"
#include "rendezvous/secret.h"
#include "rendezvous/secret_descriptor.h"

namespace colla::job {
namespace {

constexpr char kRole[] = "COLLA_ROLE";
constexpr char kRank[] = "COLLA_RANK";
constexpr char kSize[] = "COLLA_SIZE";
constexpr char kServerCount[] = "COLLA_SERVERS";
constexpr char kLocalRank[] = "COLLA_LOCAL_RANK";
constexpr char kLocalSize[] = "COLLA_LOCAL_SIZE";
constexpr char kEpoch[] = "COLLA_EPOCH";
constexpr char kSecret[] = "COLLA_SECRET";
constexpr char kSecretFd[] = "COLLA_SECRET_FD";
constexpr char kHost[] = "COLLA_HOST";
constexpr char kJobId[] = "COLLA_JOB_ID";
constexpr char kStore[] = "COLLA_STORE";
constexpr char kSecretFile[] = "COLLA_SECRET_FILE";

// Any of these says that `colla run` started the process; then all of them are needed, with the
// job's id, its store, and its secret in one of two ways. The other variables a user may set under
// other launchers too.
constexpr std::array kFromCollaRun = {kRole,      kRank,      kSize, kServerCount,
                                      kLocalRank, kLocalSize, kEpoch};
constexpr std::array kSecrets = {kSecretFd, kSecret};

constexpr int kMaxSize = 1 << 20;

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // Empty variables count as unset: shells make them easily.
  bool has(const char* name) const { return !text(name).empty(); }
  std::string text(const char* name) const {
    const char* value = environment_(name);
    return value == nullptr ? "" : value;
  }

  Result<std::int64_t> number(const char* name, std::int64_t least, std::int64_t most) const {
    const std::string value = text(name);
    if (value.empty()) return invalid("{} is not set", name);
    std::int64_t parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc() || end != value.data() + value.size() || parsed < least ||
        parsed > most) {
      return invalid("{} is \"{}\", but must be a whole number from {} to {}", name, value, least,
                     most);
    }
    return parsed;
  }
  Status read(const char* name, std::int64_t least, std::int64_t most, int& to) const {
    COLLA_TRY_ASSIGN(const std::int64_t value, number(name, least, most));
    to = static_cast<int>(value);
    return {};
  }
  // A number below another one that was read before: a rank and its size.
  Status readBelow(const char* name, const char* sizeName, int size, int& to) const {
    return read(name, 0, size - 1, to).withContext(fmt::format("with {}={}", sizeName, size));
  }

 private:
  const Environment& environment_;
};

// The four numbers that every launcher gives, each under its own name.
struct Names {
  const char* rank;
  const char* size;
  const char* localRank;
  const char* localSize;
};
constexpr Names kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kHydra = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kTorchrun = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr char kPmiDescriptor[] = "PMI_FD";
constexpr char kMasterAddress[] = "MASTER_ADDR";
constexpr char kMasterPort[] = "MASTER_PORT";

Status checkLocal(const Place& place, const char* localSizeName, const char* sizeName) {
  if (place.localSize <= place.size) return {};
  return invalid("{} is {}, more than {}, which is {}", localSizeName, place.localSize, sizeName,
                 place.size);
}

Status readNumbers(const Reader& reader, const Names& names, Place& place) {
  COLLA_TRY(reader.read(names.size, 1, kMaxSize, place.size));
  COLLA_TRY(reader.readBelow(names.rank, names.size, place.size, place.rank));
  COLLA_TRY(reader.read(names.localSize, 1, kMaxSize, place.localSize));
  COLLA_TRY(checkLocal(place, names.localSize, names.size));
  return reader.readBelow(names.localRank, names.localSize, place.localSize, place.localRank);
}

// `id` in the letters that a socket's name may have, and short; different ids stay different.
std::string asName(std::string_view id) {
  constexpr std::size_t kLongest = 48;
  std::string name(id.substr(0, kLongest));
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  if (name != id) {
    name += fmt::format("-{:08x}", crc32c(std::as_bytes(std::span(id.data(), id.size()))));
  }
  return name;
}

Status checkAddress(std::string_view address, std::string_view variable) {
  if (address.starts_with("unix:@") && address.size() > 6) return {};
  const auto colon = address.rfind(':');
  int port = 0;
  if (colon != std::string_view::npos && colon > 0) {
    const auto digits = address.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || end != digits.data() + digits.size()) port = 0;
  }
  if (port >= 1 && port <= 65535) return {};
  return invalid("{} is \"{}\", but must be HOST:PORT", variable, address);
}

Status checkSecret(std::string_view hex) {
  const bool digits = std::ranges::all_of(hex, [](unsigned char c) { return std::isxdigit(c); });
  if (digits && hex.size() >= 64 && hex.size() % 2 == 0) return {};
  // The value itself stays out of messages.
  return invalid("{} has {} characters, but must be 64 hexadecimal digits or more", kSecret,
                 hex.size());
}

// A variable of the user's own comes first.
Status readSecret(const Reader& reader, Place& place) {
  if (reader.has(kSecret)) {
    place.secretHex = reader.text(kSecret);
    return checkSecret(place.secretHex);
  }
  COLLA_TRY(reader.read(kSecretFd, 0, std::numeric_limits<int>::max(), place.secretFd));
  COLLA_TRY_ASSIGN(const std::string secret, rendezvous::readSecretDescriptor(place.secretFd));
  place.secretHex = rendezvous::secretToHex(secret);
  return {};
}

Result<Place> readCollaRun(const Reader& reader, Place place) {
  for (const char* name : {kJobId, kStore}) {
    if (!reader.has(name)) return invalid("{} is not set", name);
  }
  const std::string role = reader.text(kRole);
  if (role == toString(Role::kServer)) {
    place.role = Role::kServer;
  } else if (role != toString(Role::kWorker)) {
    return invalid("{} is \"{}\", but must be worker or ps", kRole, role);
  }
  COLLA_TRY(reader.read(kSize, 1, kMaxSize, place.size));
  COLLA_TRY(reader.read(kServerCount, 0, kMaxSize, place.servers));
  const bool worker = place.role == Role::kWorker;
  const int peers = worker ? place.size : place.servers;
  const char* const peersName = worker ? kSize : kServerCount;
  COLLA_TRY(reader.readBelow(kRank, peersName, peers, place.rank));
  COLLA_TRY(reader.read(kLocalSize, 1, peers, place.localSize));
  COLLA_TRY(reader.readBelow(kLocalRank, kLocalSize, place.localSize, place.localRank));
  COLLA_TRY_ASSIGN(const std::int64_t epoch,
                   reader.number(kEpoch, 0, std::numeric_limits<std::uint32_t>::max()));
  place.epoch = static_cast<std::uint32_t>(epoch);
  place.store = reader.text(kStore);
  COLLA_TRY(checkAddress(place.store, kStore));
  COLLA_TRY(readSecret(reader, place));
  place.jobId = reader.text(kJobId);
  place.launcher = "colla";
  return place;
}

// What another launcher has for a job besides the four numbers.
struct Extras {
  std::string jobId = {};    // Empty: it tells none.
  std::string address = {};  // Of the store, if the job spans hosts and COLLA_STORE does not say.
  Handout handout = Handout::kNone;  // What brings the secret to other hosts, if no file has it.
};

// The store and the secret of a job that another launcher started.
Result<Place> withStore(const Reader& reader, Place place, const Extras& extras) {
  const bool named = !extras.jobId.empty() || reader.has(kJobId);
  place.jobId = reader.has(kJobId) ? reader.text(kJobId) : place.launcher + "-" + extras.jobId;
  if (place.alone()) return place;
  // A process manager tells all that is missing, MUNGE the secret alone.
  const bool manager = extras.handout == Handout::kPmi || extras.handout == Handout::kPmix;
  if (!named && !manager) {
    return invalid(
        "this {} tells no job id: set COLLA_JOB_ID to a word that no other job of yours has",
        place.launcher);
  }
  if (!named) place.jobId.clear();
  place.servesStore = place.rank == 0;
  place.secretFile = reader.text(kSecretFile);
  const bool oneHost = place.localSize == place.size;
  if (reader.has(kStore)) {
    place.store = reader.text(kStore);
    COLLA_TRY(checkAddress(place.store, kStore));
  } else if (!oneHost && !extras.address.empty()) {
    place.store = extras.address;
    COLLA_TRY(checkAddress(place.store, "the store's address"));
  } else if (oneHost && named) {
    place.store = localStore(place.jobId);
  }
  const bool noSecret = !oneHost && place.secretFile.empty();
  if (noSecret || (manager && (!named || place.store.empty()))) place.handout = extras.handout;
  if (noSecret && place.handout == Handout::kNone) {
    return invalid(
        "this job spans hosts ({} of its {} processes are here) and {} shares no "
        "secret: {}",
        place.localSize, place.size, place.launcher, kSecretHint);
  }
  if (place.store.empty() && !manager) {
    return invalid(
        "this job spans hosts and {} does not tell where rank 0 is: set "
        "COLLA_STORE=HOST:PORT to rank 0's host and a free port there",
        place.launcher);
  }
  return place;
}

Result<Place> readOpenMpi(const Reader& reader, Place place) {
  place.launcher = "mpirun";
  COLLA_TRY(readNumbers(reader, kOpenMpi, place));
  // mpirun gives both or, if it was built without PMIx, neither.
  const bool pmix = reader.has("PMIX_NAMESPACE") && reader.has("PMIX_RANK");
  return withStore(
      reader, place,
      {.jobId = reader.text("PMIX_NAMESPACE"), .handout = pmix ? Handout::kPmix : Handout::kNone});
}

// MPICH and its descendants.
Result<Place> readHydra(const Reader& reader, Place place) {
  place.launcher = "mpirun";
  COLLA_TRY(readNumbers(reader, kHydra, place));
  return withStore(reader, place,
                   {.jobId = reader.text("I_MPI_HYDRA_UUID"),
                    .handout = reader.has(kPmiDescriptor) ? Handout::kPmi : Handout::kNone});
}

Result<Place> readTorchrun(const Reader& reader, Place place) {
  place.launcher = "torchrun";
  COLLA_TRY(readNumbers(reader, kTorchrun, place));
  if (place.size == 1) return withStore(reader, place, {});
  const std::string master = reader.text(kMasterAddress);
  if (master.empty()) return invalid("{} is not set", kMasterAddress);
  COLLA_TRY_ASSIGN(const std::int64_t port, reader.number(kMasterPort, 1, 65535));
  // Several agents on one host, and numbers set by hand, count no hosts: a process whose host is
  // that of rank 0 meets the others there, unless something is set for hosts. One elsewhere is
  // refused.
  const bool counted = place.localSize == place.size;
  const bool forHosts = reader.has(kStore) || reader.has(kSecretFile) || reader.has("SLURM_JOB_ID");
  if (!counted && !forHosts && ThisHost::real().is(master)) {
    place.localSize = place.size;
    place.localRank = place.rank;
  }
  // The run id is "none" unless the user chose one; the master's address tells jobs apart then.
  std::string id = fmt::format("{}-{}-{}", reader.text("TORCHELASTIC_RUN_ID"), master, port);
  // Each host's torchrun counts the failures of its own processes: across hosts the counts differ.
  if (counted && reader.has("TORCHELASTIC_RESTART_COUNT")) {
    id += "-" + reader.text("TORCHELASTIC_RESTART_COUNT");
  }
  return withStore(reader, place,
                   {.jobId = id,
                    .address = fmt::format("{}:{}", master, port < 65535 ? port + 1 : port - 1),
                    .handout = reader.has("SLURM_JOB_ID") ? Handout::kMunge : Handout::kNone});
}

// Whether this is a task of an srun step. The batch shell has most of the variables too, but either
// no step id or one of those that Slurm keeps for shells.
bool isSlurmTask(const Reader& reader) {
  constexpr std::int64_t kFirstReservedStep = 0xfffffff0;
  if (!reader.has("SLURM_PROCID") || !reader.has("SLURM_STEP_ID")) return false;
  const auto step = reader.number("SLURM_STEP_ID", 0, kFirstReservedStep - 1);
  const auto reserved = reader.number("SLURM_STEP_ID", std::numeric_limits<std::int64_t>::min(),
                                      std::numeric_limits<std::int64_t>::max());
  return step.ok() || !reserved.ok();  // What is no number at all is for readSlurm() to refuse.
}

Result<Place> readSlurm(const Reader& reader, Place place) {
  place.launcher = "srun";
  // The step's own number: SLURM_NTASKS may be the allocation's in an interactive shell.
  const char* const size =
      reader.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  COLLA_TRY(reader.read(size, 1, kMaxSize, place.size));
  COLLA_TRY(reader.readBelow("SLURM_PROCID", size, place.size, place.rank));
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  COLLA_TRY_ASSIGN(const std::int64_t job, reader.number("SLURM_JOB_ID", 0, kAny));
  COLLA_TRY_ASSIGN(const std::int64_t step, reader.number("SLURM_STEP_ID", 0, kAny));
  std::string id = fmt::format("{}.{}", job, step);
  if (reader.has("SLURM_RESTART_COUNT")) id += "-" + reader.text("SLURM_RESTART_COUNT");
  if (reader.has("SLURM_CPUS_PER_TASK")) {
    COLLA_TRY(reader.read("SLURM_CPUS_PER_TASK", 1, kMaxSize, place.ownCpus));
  }
  if (place.size == 1) return withStore(reader, place, {.jobId = id});

  int node = 0;
  COLLA_TRY(reader.read("SLURM_NODEID", 0, kMaxSize, node));
  const std::string list = reader.text("SLURM_STEP_TASKS_PER_NODE");
  const auto tasks = slurm::tasksPerNode(list);
  std::int64_t total = 0;
  for (const int count : tasks) total += count;
  if (total != place.size || node >= static_cast<int>(tasks.size())) {
    return invalid(
        "SLURM_STEP_TASKS_PER_NODE is \"{}\", which does not fit {}={} and SLURM_NODEID={}", list,
        size, place.size, node);
  }
  place.localSize = tasks[static_cast<std::size_t>(node)];
  COLLA_TRY(reader.readBelow("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE on this node",
                             place.localSize, place.localRank));

  const std::string first = slurm::firstNode(reader.text("SLURM_STEP_NODELIST"));
  if (place.rank == 0 && node != 0 && !reader.has(kStore)) {
    return invalid("rank 0 is not on the step's first node: set COLLA_STORE=HOST:PORT");
  }
  const auto port = 20000 + (static_cast<std::uint64_t>(job) * 16 + step) % 12000;
  return withStore(reader, place,
                   {.jobId = id,
                    .address = first.empty() ? "" : fmt::format("{}:{}", first, port),
                    .handout = Handout::kMunge});
}

// RANK and WORLD_SIZE that a script derived from mpirun's or srun's must agree with them.
Status checkTorchNames(const Reader& reader, const Result<Place>& place) {
  if (!place.ok() || !reader.has(kTorchrun.rank) || !reader.has(kTorchrun.size)) return {};
  const auto check = [&](const char* name, int expected) -> Status {
    if (reader.text(name) == std::to_string(expected)) return {};
    return invalid("{} is \"{}\", but {} says {}", name, reader.text(name), place->launcher,
                   expected);
  };
  COLLA_TRY(check(kTorchrun.size, place->size));
  return check(kTorchrun.rank, place->rank);
}

Result<Place> readLists(const Reader& reader, const ClusterWords& words, Place place) {
  if (reader.has(kStore)) {
    return invalid(
        "{} is \"{}\", but with worker_hosts the lists say where the store is: "
        "unset it",
        kStore, reader.text(kStore));
  }
  COLLA_TRY_ASSIGN(const Cluster cluster, parseCluster(words));
  place.jobId = reader.text(kJobId);
  return placeIn(cluster, ThisHost::real(), place, reader.text(kSecretFile));
}

// Nothing that we know: alone, unless something says that there should be others.
Result<Place> readNone(const Reader& reader, Place place) {
  for (const char* name : {"PMIX_RANK", "MV2_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "PALS_RANKID"}) {
    if (!reader.has(name)) continue;
    return invalid(
        "{} is \"{}\", but Colla does not know this launcher: use "
        "`colla run`, mpirun, srun or torchrun, or unset it",
        name, reader.text(name));
  }
  if (reader.has(kStore)) {
    return invalid(
        "{} is \"{}\", but nothing tells this process its rank: start it "
        "with a launcher, or unset {} for a job of one",
        kStore, reader.text(kStore), kStore);
  }
  place.jobId = reader.has(kJobId) ? reader.text(kJobId) : "alone";
  return place;
}

}  // namespace

Result<Place> readEnvironment(const Environment& environment) {
  const Reader reader(environment);
  Place place;
  place.host = reader.has(kHost) ? reader.text(kHost) : hostName();

  const ClusterWords lists = readWords(environment);
  const auto has = [&](const char* name) { return reader.has(name); };
  if (std::ranges::any_of(kFromCollaRun, has) || std::ranges::any_of(kSecrets, has)) {
    const auto missing = std::ranges::find_if_not(kFromCollaRun, has);
    if (lists.given()) {
      return invalid(
          "`colla run` started this process, and worker_hosts and the like say that nobody "
          "did: use one of them");
    }
    if (missing == kFromCollaRun.end()) return readCollaRun(reader, place);
    const auto present = std::ranges::find_if(kFromCollaRun, has);
    return invalid("{} is set, but {} is not: `colla run` sets all of them",
                   present != kFromCollaRun.end() ? *present : *std::ranges::find_if(kSecrets, has),
                   *missing);
  }
  if (lists.given()) return readLists(reader, lists, place);
  // The innermost launcher first: torchrun may run under srun, mpirun too, hardly the other way.
  if (reader.has("TORCHELASTIC_RUN_ID")) return readTorchrun(reader, place);
  const bool slurm = isSlurmTask(reader);
  const bool pmi = reader.has(kHydra.rank) || reader.has(kHydra.size);
  std::optional<Result<Place>> found;
  if (reader.has(kOpenMpi.rank) || reader.has(kOpenMpi.size)) {
    found = readOpenMpi(reader, place);
  } else if (reader.has(kHydra.localRank) || (pmi && !slurm)) {
    found = readHydra(reader, place);
  } else if (slurm) {
    found = readSlurm(reader, place);  // Its PMI plugins set PMI_RANK as well.
  } else if (reader.has(kTorchrun.rank) || reader.has(kTorchrun.size)) {
    found = readTorchrun(reader, place);  // Set by hand, as for torch's env:// rendezvous.
  } else {
    found = readNone(reader, place);
  }
  COLLA_TRY(checkTorchNames(reader, *found));
  return *std::move(found);
}

std::vector<std::pair<std::string, std::string>> toVariables(const Place& place) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {kRole, std::string(toString(place.role))},
      {kRank, std::to_string(place.rank)},
      {kSize, std::to_string(place.size)},
      {kServerCount, std::to_string(place.servers)},
      {kLocalRank, std::to_string(place.localRank)},
      {kLocalSize, std::to_string(place.localSize)},
      {kEpoch, std::to_string(place.epoch)},
      {kHost, place.host},
      {kJobId, place.jobId},
      {kStore, place.store},
  };
  // Whoever passes it on in a different way says so himself.
  if (place.secretFd >= 0) {
    variables.emplace_back(kSecretFd, std::to_string(place.secretFd));
  } else if (!place.secretHex.empty()) {
    variables.emplace_back(kSecret, place.secretHex);
  }
  return variables;
}

std::vector<std::pair<std::string, std::string>> toTorchVariables(const Place& place,
                                                                  const std::string& address,
                                                                  int port) {
  return {
      {kTorchrun.rank, std::to_string(place.rank)},
      {kTorchrun.size, std::to_string(place.size)},
      {kTorchrun.localRank, std::to_string(place.localRank)},
      {kTorchrun.localSize, std::to_string(place.localSize)},
      {kMasterAddress, address},
      {kMasterPort, std::to_string(port)},
  };
}

std::string givenSecret(const Environment& environment) {
  const Reader reader(environment);
  Place place;
  const bool given =
      std::ranges::any_of(kSecrets, [&](const char* name) { return reader.has(name); });
  return given && readSecret(reader, place).ok() ? place.secretHex : "";
}

std::string localStore(std::string_view jobId) {
  return fmt::format("unix:@colla-{}-{}", getuid(), asName(jobId));
}

bool isPlaceVariable(std::string_view name) {
  return std::ranges::find(kFromCollaRun, name) != kFromCollaRun.end() ||
         std::ranges::find(kSecrets, name) != kSecrets.end() || name == kHost || name == kJobId ||
         name == kStore;
}

std::string hostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace colla::job
