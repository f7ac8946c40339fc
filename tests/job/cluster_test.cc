#include "job/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "job/variables.h"

namespace colla::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A host with some names, as others and it see them; "loop" leads to its loopback interface.
ThisHost hostWith(const std::set<std::string>& names) {
  return {
      .is = [names](const std::string& host) { return isLoopback(host) || names.contains(host); },
      .address = [](const std::string& host, const std::string& other) -> Result<std::string> {
        return host == "loop" ? "towards-" + other.substr(0, other.find(':'))
                              : "address-of-" + host;
      }};
}

Result<Place> placeOf(const ClusterWords& words, const ThisHost& here, const std::string& secret) {
  COLLA_TRY_ASSIGN(const Cluster cluster, parseCluster(words));
  Place place;
  place.host = "myname";
  return placeIn(cluster, here, place, secret);
}

TEST(Cluster, ListsHaveCommasOrBlanks) {
  for (const char* list : {"a:1,b:2,[::1]:3", "a:1 b:2 [::1]:3", " A:1 ,\tb:2  [::1]:3 "}) {
    const auto cluster = parseCluster({"", list, "worker", "2"});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_EQ(cluster->workers, (std::vector<Task>{{"a", 1}, {"b", 2}, {"::1", 3}})) << list;
    EXPECT_EQ(cluster->self().text(), "[::1]:3");
  }
}

TEST(Cluster, LastTaskIsTheLastServerOrElseTheLastWorker) {
  const auto last = [](const ClusterWords& words) { return parseCluster(words)->selfIsLast(); };
  EXPECT_TRUE(last({"s:1,s:2", "w:1,w:2", "ps", "1"}));
  EXPECT_FALSE(last({"s:1,s:2", "w:1,w:2", "ps", "0"}));
  EXPECT_FALSE(last({"s:1,s:2", "w:1,w:2", "worker", "1"}));
  EXPECT_TRUE(last({"", "w:1,w:2", "worker", "1"}));
  EXPECT_FALSE(last({"", "w:1,w:2", "", "0"}));
}

TEST(Cluster, OnOneHostItMeetsAtASocketNamedAfterTheLists) {
  const ThisHost here = hostWith({"h", "h.example"});
  std::set<std::string> stores;
  for (const char* job : {"ps", "worker"}) {
    const auto place = placeOf(
        {"localhost:1", "h:2,127.0.0.1:3,h.example:4", job, std::string(job) == "ps" ? "0" : "2"},
        here, "");
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(place->launcher, "lists");
    EXPECT_EQ(place->size, 3);
    EXPECT_EQ(place->servers, 1);
    EXPECT_TRUE(place->oneHost());
    EXPECT_EQ(place->address, "");
    EXPECT_EQ(place->servesStore, place->role == Role::kServer);
    EXPECT_EQ(place->localRank, place->role == Role::kServer ? 0 : 2);
    EXPECT_EQ(place->localSize, place->role == Role::kServer ? 1 : 3);
    EXPECT_EQ(place->host, "myname");
    EXPECT_THAT(place->store, StartsWith("unix:@colla-"));
    stores.insert(place->store);
  }
  EXPECT_EQ(stores.size(), 1U);
  // Other lists are another job, and so is the same list in the other role.
  for (const ClusterWords& other :
       {ClusterWords{"localhost:1", "h:2,127.0.0.1:3,h.example:5", "worker", "0"},
        ClusterWords{"", "localhost:1,h:2,127.0.0.1:3,h.example:4", "worker", "0"},
        ClusterWords{"localhost:1,h:2", "127.0.0.1:3,h.example:4", "worker", "0"}}) {
    const auto place = placeOf(other, here, "");
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_TRUE(stores.insert(place->store).second) << place->store;
  }
}

TEST(Cluster, BetweenHostsEachTaskListensAtItsPortAndTheLastOneServesTheStore) {
  const auto place = [](const char* host, const char* job, const char* index) {
    return *placeOf({"b:9", "a:1,a:2,b:3", job, index}, hostWith({host}), "/secret");
  };
  const Place first = place("a", "worker", "1");
  EXPECT_EQ(first.store, "b:9");
  EXPECT_EQ(first.address, "address-of-a:2");
  EXPECT_EQ(first.host, "a");
  EXPECT_EQ(first.secretFile, "/secret");
  EXPECT_EQ(first.localRank, 1);
  EXPECT_EQ(first.localSize, 2);
  EXPECT_FALSE(first.servesStore);
  EXPECT_FALSE(first.oneHost());
  EXPECT_THAT(first.tasks, ::testing::ElementsAre("a:1", "a:2", "b:3", "b:9"));

  const Place neighbour = place("b", "worker", "2");
  EXPECT_EQ(neighbour.store, "address-of-b:9");  // The very address that the server has.
  EXPECT_EQ(neighbour.address, "address-of-b:3");
  const Place server = place("b", "ps", "0");
  EXPECT_EQ(server.store, neighbour.store);
  EXPECT_EQ(server.address, "");  // Nobody connects to the last one but for the store.
  EXPECT_TRUE(server.servesStore);
  EXPECT_EQ(server.jobId, first.jobId);
}

// All workers are here, but the server is not.
TEST(Cluster, ServersCountForWhatOneHostIs) {
  const auto place = placeOf({"b:9", "a:1,a:2", "worker", "0"}, hostWith({"a"}), "/secret");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->localSize, place->size);
  EXPECT_FALSE(place->oneHost());
}

TEST(Cluster, NameThatLeadsToTheLoopbackInterfaceIsReplacedByTheWayToTheOthers) {
  const auto place = placeOf({"", "loop:1,b:2", "worker", "0"}, hostWith({"loop"}), "/secret");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->address, "towards-b:1");
}

TEST(Cluster, OneWorkerIsAlone) {
  const auto place = placeOf({"", "localhost:1", "", ""}, hostWith({}), "");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_TRUE(place->alone());
  EXPECT_EQ(place->launcher, "lists");
}

TEST(Cluster, ThisHostKnowsItself) {
  const ThisHost here = ThisHost::real();
  for (const std::string& host : {std::string("localhost"), std::string("127.0.0.1"),
                                  std::string("127.3.2.1"), std::string("::1"), hostName()}) {
    EXPECT_TRUE(here.is(host)) << host;
  }
  EXPECT_FALSE(here.is("192.0.2.7"));  // Nobody's, by RFC 5737.
}

struct RefusedLists {
  const char* what;
  ClusterWords words;
  const char* says;
};

class ClusterRefuses : public ::testing::TestWithParam<RefusedLists> {};

TEST_P(ClusterRefuses, InOneLineWithTheCulprit) {
  const auto place = placeOf(GetParam().words, hostWith({"h"}), "");
  ASSERT_FALSE(place.ok());
  EXPECT_EQ(place.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(toString(place.status()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, ClusterRefuses,
    ::testing::Values(
        RefusedLists{"NoPort", {"", "h", "worker", "0"}, "worker_hosts has \"h\""},
        RefusedLists{"EmptyPort", {"h:", "h:1", "ps", "0"}, "ps_hosts has \"h:\""},
        RefusedLists{"PortZero", {"", "h:0", "worker", "0"}, "\"h:0\""},
        RefusedLists{"PortTooLarge", {"", "h:65536", "worker", "0"}, "\"h:65536\""},
        RefusedLists{"PortIsText", {"", "h:2x", "worker", "0"}, "\"h:2x\""},
        RefusedLists{"NoHost", {"", ":1", "worker", "0"}, "\":1\""},
        RefusedLists{"Scheme", {"", "grpc://h:1", "worker", "0"}, "\"grpc://h:1\""},
        RefusedLists{"BareSix", {"", "::1:5", "worker", "0"}, "\"::1:5\""},
        RefusedLists{"Semicolon", {"", "h:1;h:2", "worker", "0"}, "\"h:1;h:2\""},
        RefusedLists{"Hole", {"", "h:1,,h:2", "worker", "0"}, "worker_hosts has nothing where"},
        RefusedLists{"ServerTwice", {"h:1,h:2,H:1", "h:3", "ps", "0"}, "ps_hosts names h:1 twice"},
        RefusedLists{"WorkerTwice", {"", "h:1,h:1", "worker", "0"}, "worker_hosts names h:1 twice"},
        RefusedLists{
            "BothRoles", {"h:1", "h:1", "ps", "0"}, "h:1 is in ps_hosts and in worker_hosts"},
        RefusedLists{"NoWorkers", {"h:1", "", "ps", "0"}, "worker_hosts is not given"},
        RefusedLists{"OnlyAName", {"", "", "worker", "0"}, "worker_hosts is not given"},
        RefusedLists{"NoName", {"h:1", "h:2", "", "0"}, "job_name is not given"},
        RefusedLists{"Chief", {"h:1", "h:2", "chief", "0"}, "job_name is \"chief\""},
        RefusedLists{
            "NoServers", {"", "h:2", "ps", "0"}, "job_name is ps, but ps_hosts names none"},
        RefusedLists{"NoIndex", {"", "h:2,h:3", "worker", ""}, "task_index is not given"},
        RefusedLists{"IndexTooLarge", {"h:1", "h:2,h:3", "worker", "2"}, "task_index is \"2\""},
        RefusedLists{"IndexNegative", {"h:1", "h:2,h:3", "worker", "-1"}, "must be from 0 to 1"},
        RefusedLists{"IndexIsText", {"", "h:2,h:3", "worker", "x"}, "task_index is \"x\""},
        RefusedLists{"IndexHuge", {"", "h:2,h:3", "worker", "99999999999"}, "\"99999999999\""},
        RefusedLists{"ElsewhereToo", {"", "h:2,b:3", "worker", "0"}, "set COLLA_SECRET_FILE=FILE"},
        RefusedLists{"NotHere",
                     {"", "h:2,b:3", "worker", "1"},
                     "worker 1 belongs to b:3, but this is host myname"}),
    [](const auto& test) { return std::string(test.param.what); });

TEST(Cluster, LoopbackNamesBetweenHostsAreRefused) {
  const auto place = placeOf({"localhost:9", "h:2,b:3", "worker", "0"}, hostWith({"h"}), "/secret");
  EXPECT_THAT(toString(place.status()), HasSubstr("localhost:9 is another host wherever"));
}

// From variables, as flags put them there too.
TEST(Cluster, VariablesSayTheSame) {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] :
       toVariables(ClusterWords{"localhost:1", "localhost:2,localhost:3", "worker", "1"})) {
    variables[name] = value;
  }
  const auto place = read(variables);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->launcher, "lists");
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->servers, 1);
  // Stronger than another launcher's, whose tasks may well be these.
  auto under = variables;
  under.insert(
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}});
  EXPECT_EQ(read(under)->launcher, "lists");

  auto named = variables;
  named["COLLA_JOB_ID"] = "mine";
  EXPECT_THAT(read(named)->store, HasSubstr("-mine"));
  named["COLLA_STORE"] = "a:1";
  EXPECT_THAT(toString(read(named).status()), HasSubstr("COLLA_STORE is \"a:1\""));
  variables["COLLA_RANK"] = "0";
  EXPECT_THAT(toString(read(variables).status()), HasSubstr("`colla run` started this process"));
  // One of them alone is no job of one.
  EXPECT_THAT(toString(read({{"COLLA_TASK_INDEX", "1"}}).status()),
              AllOf(HasSubstr("worker_hosts is not given")));
}

}  // namespace
}  // namespace colla::job
