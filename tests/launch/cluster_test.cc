// Jobs without a launcher, by TensorFlow's flags, as real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "job/environment.h"
#include "support/colla_process.h"

namespace colla::launch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Tests may run side by side, and their jobs must not meet: every list is one of its own.
std::string address(int number, const std::string& host = "localhost") {
  return host + ":" + std::to_string(1024 + (getpid() * 16 + number) % 60000);
}

using Words = std::vector<std::string>;

std::unique_ptr<CollaProcess> start(const Words& words, const std::string& wrapper = "") {
  CollaProcess::Options options;
  options.program = COLLA_CLUSTER_MEMBER;
  options.keepInput = true;
  options.wrapper = wrapper;
  return std::make_unique<CollaProcess>(words, options);
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words task(const std::string& job, int index) {
  return {"--job_name", job, "--task_index=" + std::to_string(index)};
}

void expectSum(CollaProcess& worker, const std::string& sum) {
  EXPECT_EQ(worker.wait(), 0) << worker.err();
  EXPECT_THAT(worker.out(), HasSubstr("sum " + sum + "\n"));
}

TEST(Cluster, WorkersMeetInWhateverOrderTheyStart) {
  const Words lists = {"--worker_hosts",
                       address(0) + "," + address(1, "127.0.0.1") + "," + address(2, "127.0.0.2")};
  for (const std::vector<int>& order :
       {std::vector<int>{0, 1, 2}, std::vector<int>{2, 1, 0}, std::vector<int>{1, 2, 0}}) {
    std::vector<std::unique_ptr<CollaProcess>> workers(3);
    for (const int index : order) {
      workers[index] = start(lists + task("worker", index));
      // Until it waits for the others, or at least for something.
      ASSERT_TRUE(eventually([&] {
        const auto processes = workers[index]->processes();
        return processes.size() == 1 && processes[0].state == 'S';
      }));
    }
    for (int index = 0; index < 3; ++index) {
      ASSERT_TRUE(workers[index]->says("joined as worker " + std::to_string(index) + " of 3"))
          << workers[index]->err();
    }
    for (auto& worker : workers) worker->type("\n");
    for (auto& worker : workers) expectSum(*worker, "6");
  }
}

TEST(Cluster, ServersAndWorkersMeetWithEverySpelling) {
  const std::string servers = address(0) + " " + address(1);
  const auto ps0 =
      start({"--ps_hosts=" + servers, "--worker_hosts=" + address(2) + "," + address(3),
             "--job_name=ps", "--task_index=0"});
  const auto worker0 = start({"--ps-hosts", address(0), address(1), "--worker-hosts", address(2),
                              address(3), "--job-name", "worker", "--task-index", "0"});
  const auto worker1 =
      start({}, "COLLA_PS_HOSTS='" + servers + "' COLLA_WORKER_HOSTS=" + address(2) + "," +
                    address(3) + " COLLA_JOB_NAME=worker COLLA_TASK_INDEX=1 exec \"$@\"");
  const auto ps1 = start({"--ps_hosts", servers, "--worker_hosts", address(2) + ", " + address(3),
                          "--job_name", "ps", "--task_index", "1"});
  ASSERT_TRUE(ps0->says("joined as ps 0 of 2, 2 servers")) << ps0->err();
  ASSERT_TRUE(ps1->says("joined as ps 1 of 2")) << ps1->err();
  for (CollaProcess* worker : {worker0.get(), worker1.get()}) {
    ASSERT_TRUE(worker->says("joined as worker ")) << worker->err();
    worker->type("\n");
  }
  for (CollaProcess* worker : {worker0.get(), worker1.get()}) expectSum(*worker, "3");
  for (CollaProcess* server : {ps0.get(), ps1.get()}) {
    server->type("\n");
    EXPECT_EQ(server->wait(), 0) << server->err();
  }
}

TEST(Cluster, SecondProcessForATaskIsRefusedAndTheJobGoesOn) {
  const Words lists = {"--ps_hosts", address(0), "--worker_hosts", address(1) + "," + address(2)};
  const auto server = start(lists + task("ps", 0));
  const auto worker0 = start(lists + task("worker", 0));
  const auto worker1 = start(lists + task("worker", 1));
  for (CollaProcess* process : {server.get(), worker0.get(), worker1.get()}) {
    ASSERT_TRUE(process->says("joined")) << process->err();
  }
  const auto again = start(lists + task("worker", 1));
  EXPECT_EQ(again->wait(), 1);
  EXPECT_THAT(again->err(),
              AllOf(HasSubstr("cluster_member: there are two processes for rank 1: this one"),
                    HasSubstr("process " + std::to_string(worker1->pid()) + " on host ")));
  const auto serverAgain = start(lists + task("ps", 0));
  EXPECT_EQ(serverAgain->wait(), 1);
  EXPECT_THAT(serverAgain->err(), HasSubstr("cluster_member: there is a process for ps 0 already"));
  for (CollaProcess* late : {again.get(), serverAgain.get()}) {
    EXPECT_EQ(std::ranges::count(late->err(), '\n'), 1) << late->err();
  }

  worker0->type("\n");
  worker1->type("\n");
  expectSum(*worker0, "3");
  expectSum(*worker1, "3");
  server->type("\n");
  EXPECT_EQ(server->wait(), 0) << server->err();
}

TEST(Cluster, WhoComesFirstSaysForWhomItWaits) {
  const Words lists = {"--ps_hosts", address(0), "--worker_hosts", address(1) + "," + address(2)};
  const auto worker = start(lists + task("worker", 0));
  ASSERT_TRUE(worker->complains("waiting for ps 0 at " + address(0) + ", where the others meet"))
      << worker->err();
  const auto server = start(lists + task("ps", 0));
  ASSERT_TRUE(server->complains("waiting for rank 1")) << server->err();
  ASSERT_TRUE(worker->complains("waiting for rank 1")) << worker->err();
  const auto last = start(lists + task("worker", 1));
  EXPECT_TRUE(worker->says("joined")) << worker->err();
}

TEST(Cluster, WhoWaitsTooLongSaysForWhom) {
  const Words lists = {"--worker_hosts", address(0) + "," + address(1) + "," + address(2),
                       "--start-timeout", "0.5"};
  const auto first = start(lists + task("worker", 0));
  EXPECT_EQ(first->wait(), 1);
  // Where it was expected and what to start, and nothing of how processes meet.
  EXPECT_THAT(first->err(), AllOf(HasSubstr("rank 2 at " + address(2) + " did not come within "),
                                  HasSubstr("start it with --job_name worker --task_index 2"),
                                  Not(HasSubstr("store")), Not(HasSubstr("unix:"))));
  const auto last = start(lists + task("worker", 2));
  EXPECT_EQ(last->wait(), 1);
  EXPECT_THAT(last->err(),
              AllOf(HasSubstr("rank 0 at " + address(0) + ", rank 1 at " + address(1) +
                              " did not join; start each with its own --job_name and --task_index"),
                    Not(HasSubstr("epoch/")), Not(HasSubstr("unix:"))));
}

struct Wrong {
  const char* what;
  Words words;
  const char* says;
};

class ClusterUsage : public ::testing::TestWithParam<Wrong> {};

TEST_P(ClusterUsage, SaysWhatIsWrongInOneLine) {
  const auto process = start(GetParam().words);
  EXPECT_EQ(process->wait(), 2);
  EXPECT_THAT(process->err(), HasSubstr(GetParam().says));
  EXPECT_EQ(std::ranges::count(process->err(), '\n'), 1) << process->err();
  EXPECT_EQ(process->out(), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, ClusterUsage,
    ::testing::Values(
        Wrong{"NoPort", {"--worker_hosts", "localhost"}, "worker_hosts has \"localhost\""},
        Wrong{"Twice",
              {"--ps_hosts", "a:1,a:1", "--worker_hosts", "a:2", "--job_name", "ps"},
              "ps_hosts names a:1 twice"},
        Wrong{"Index",
              {"--worker_hosts", "localhost:1,localhost:2", "--task_index", "2"},
              "task_index is \"2\", but must be from 0 to 1"},
        Wrong{"NoIndex", {"--worker_hosts", "localhost:1,localhost:2"}, "task_index is not given"},
        Wrong{"NoName",
              {"--ps_hosts", "localhost:1", "--worker_hosts", "localhost:2"},
              "job_name is not given"},
        Wrong{
            "NoLists", {"--job_name", "worker", "--task_index", "1"}, "worker_hosts is not given"},
        Wrong{"NotHere", {"--worker_hosts", "192.0.2.7:1"}, "worker 0 belongs to 192.0.2.7:1"},
        Wrong{"NoSecret",
              {"--worker_hosts", "localhost:1,192.0.2.7:1", "--task_index", "0"},
              "set COLLA_SECRET_FILE=FILE"},
        Wrong{"OtherNumber",
              {"--worker_hosts", "localhost:1,localhost:2", "--task_index", "0", "--np", "3"},
              "--np is 3, but the lists of hosts name 2 workers"},
        Wrong{"NumberForOne",
              {"--worker_hosts", "localhost:1", "--np", "2"},
              "--np is 2, but the lists of hosts name 1 worker: leave --np out"}),
    [](const auto& test) { return std::string(test.param.what); });

TEST(Cluster, UnderCollaRunItIsRefused) {
  CollaProcess colla({"run", "-np", "1", "--", COLLA_CLUSTER_MEMBER, "--worker_hosts", address(0)});
  EXPECT_EQ(colla.wait(), 2);
  EXPECT_THAT(colla.err(), HasSubstr("`colla run` started this process, and worker_hosts"));
}

// Two hosts, as far as they can tell: network namespaces that only a cable joins.
class ClusterHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    for (pid_t& host : hosts_) {
      int ready[2];
      ASSERT_EQ(pipe(ready), 0);
      host = fork();
      if (host == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const char answer = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &answer, 1);
        for (;;) pause();
      }
      char answer = 'n';
      ASSERT_EQ(read(ready[0], &answer, 1), 1);
      close(ready[0]);
      close(ready[1]);
      if (answer != 'y') GTEST_SKIP() << "no right to make network namespaces";
    }
    ASSERT_TRUE(
        on(0, "ip link add eth0 type veth peer name eth0 netns " + std::to_string(hosts_[1])));
    for (const int host : {0, 1}) {
      ASSERT_TRUE(on(host, "ip address add " + ip(host) + "/30 dev eth0"));
      ASSERT_TRUE(on(host, "ip link set eth0 up") && on(host, "ip link set lo up"));
    }
    secret_ = ::testing::TempDir() + "cluster-secret-" + std::to_string(getpid());
    std::ofstream(secret_) << std::string(40, 's');
    ASSERT_EQ(chmod(secret_.c_str(), 0600), 0);
  }
  void TearDown() override {
    for (const pid_t host : hosts_) {
      if (host <= 0) continue;
      kill(host, SIGKILL);
      waitpid(host, nullptr, 0);
    }
    std::filesystem::remove(secret_);
  }

  static std::string ip(int host) { return "10.77.0." + std::to_string(host + 1); }
  std::string enter(int host) const {
    return "nsenter --net=/proc/" + std::to_string(hosts_[host]) + "/ns/net -- ";
  }
  bool on(int host, const std::string& command) const {
    return std::system((enter(host) + command).c_str()) == 0;
  }
  std::unique_ptr<CollaProcess> startOn(int host, const Words& words) const {
    return start(words, "exec " + enter(host) + "\"$@\"");
  }
  // What a firewall would see: of each connection of a process's host, the port that somebody
  // listens on, and 0 for one to a port where nobody was told to.
  static std::set<int> portsInUse(pid_t pid) { return ports(pid, "01"); }
  // The same for ports that somebody listens on.
  static std::set<int> openPorts(pid_t pid) { return ports(pid, "0A"); }
  static std::set<int> ports(pid_t pid, const std::string& wanted) {
    std::set<int> ports;
    std::ifstream table("/proc/" + std::to_string(pid) + "/net/tcp");
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state;
      fields >> slot >> local >> remote >> state;
      if (state != wanted) continue;
      int given = 0;
      for (const std::string& end : {local, remote}) {
        const int port = std::stoi(end.substr(end.find(':') + 1), nullptr, 16);
        if (port >= 2222 && port <= 2225) given = port;
      }
      ports.insert(given);
    }
    return ports;
  }
  Words withSecret() const { return {"--secret-file", secret_}; }

  pid_t hosts_[2] = {0, 0};
  std::string secret_;
};

TEST_F(ClusterHosts, MeetThroughTheirPortsAlone) {
  const Words lists = {"--ps_hosts", ip(0) + ":2222," + ip(1) + ":2222", "--worker_hosts",
                       ip(0) + ":2223," + ip(1) + ":2223"};
  const Words all = lists + withSecret();
  const auto worker1 = startOn(1, all + task("worker", 1));
  const auto ps0 = startOn(0, all + task("ps", 0));
  const auto ps1 = startOn(1, all + task("ps", 1));
  const auto worker0 = startOn(0, all + task("worker", 0));
  for (CollaProcess* process : {ps0.get(), ps1.get(), worker0.get(), worker1.get()}) {
    ASSERT_TRUE(process->says("joined")) << process->err();
  }
  for (CollaProcess* process : {worker0.get(), worker1.get()}) {
    EXPECT_THAT(portsInUse(process->pid()), ElementsAre(2222, 2223));
    EXPECT_THAT(openPorts(process->pid()), ElementsAre(2222, 2223));
  }
  // Second ones, here and there, while the job runs.
  const auto again = startOn(1, all + task("worker", 1));
  EXPECT_EQ(again->wait(), 1);
  EXPECT_THAT(again->err(), HasSubstr("there is a process for rank 1 already, or another program"));
  const auto serverAgain = startOn(1, all + task("ps", 1));
  EXPECT_EQ(serverAgain->wait(), 1);
  EXPECT_THAT(serverAgain->err(), HasSubstr("there is a process for ps 1 already"));
  // Where it does not belong.
  const auto lost = startOn(0, all + task("worker", 1));
  EXPECT_EQ(lost->wait(), 2);
  EXPECT_THAT(lost->err(), HasSubstr("worker 1 belongs to " + ip(1) + ":2223, but this is host"));

  worker0->type("\n");
  worker1->type("\n");
  expectSum(*worker0, "3");
  expectSum(*worker1, "3");
  for (CollaProcess* server : {ps0.get(), ps1.get()}) {
    server->type("\n");
    EXPECT_EQ(server->wait(), 0) << server->err();
  }
}

TEST_F(ClusterHosts, WorkersAloneMeetThroughTheirPortsAlone) {
  const Words all = Words{"--worker_hosts", ip(1) + ":2223", ip(0) + ":2224", ip(1) + ":2225"} +
                    withSecret() + Words{"--threads", "1"};  // Hosts have different numbers.
  std::vector<std::unique_ptr<CollaProcess>> workers;
  for (const int index : {0, 1, 2}) {
    workers.push_back(startOn(index == 1 ? 0 : 1, all + task("worker", index)));
  }
  for (auto& worker : workers) ASSERT_TRUE(worker->says("joined")) << worker->err();
  EXPECT_THAT(portsInUse(workers[0]->pid()), ElementsAre(2223, 2224, 2225));
  EXPECT_THAT(portsInUse(workers[1]->pid()), ElementsAre(2223, 2224, 2225));
  for (auto& worker : workers) worker->type("\n");
  for (auto& worker : workers) expectSum(*worker, "6");
}

TEST_F(ClusterHosts, WithoutASecretAreRefused) {
  const Words lists = {"--worker_hosts", ip(0) + ":2223," + ip(1) + ":2223"};
  const auto worker = startOn(0, lists + task("worker", 0));
  EXPECT_EQ(worker->wait(), 2);
  EXPECT_THAT(worker->err(), HasSubstr("this job spans hosts and has no secret: make a file"));
}

TEST_F(ClusterHosts, WithAnotherSecretAreRefusedAtOnce) {
  const Words lists = {"--worker_hosts", ip(0) + ":2223," + ip(1) + ":2223"};
  const auto last = startOn(1, lists + withSecret() + task("worker", 1));
  ASSERT_TRUE(eventually([&] { return on(1, "grep -q ':08AF ' /proc/net/tcp"); }));
  const std::string other = secret_ + ".other";
  std::ofstream(other) << std::string(40, 't');
  ASSERT_EQ(chmod(other.c_str(), 0600), 0);
  const auto worker = startOn(0, lists + Words{"--secret-file", other} + task("worker", 0));
  EXPECT_EQ(worker->wait(), 1);
  EXPECT_THAT(worker->err(), HasSubstr("secret"));
  std::filesystem::remove(other);
}

}  // namespace
}  // namespace colla::launch
