// Which transports the processes of a job choose.
#include "job/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "job/settings.h"

namespace colla::job {
namespace {

using Flags = std::map<std::string, std::string>;
using Names = std::pair<std::string, std::string>;

Result<TransportChoice> choiceFor(const Flags& flags, bool oneHost) {
  Place place;
  place.size = 2;
  place.localSize = oneHost ? 2 : 1;
  place.store = oneHost ? "unix:@store" : "10.0.0.1:4000";
  const auto config = Config::load(settings(), flags, "", [](const char*) { return nullptr; });
  EXPECT_TRUE(config.ok()) << config.status();
  return chooseTransports(*config, place);
}

// "shm" and "tcp", say; "" for none.
Names namesFor(const Flags& flags, bool oneHost) {
  const auto choice = choiceFor(flags, oneHost);
  EXPECT_TRUE(choice.ok()) << choice.status();
  const auto nameOf = [](const transport::TransportRow* row) {
    return row == nullptr ? std::string() : std::string(row->name);
  };
  return {nameOf(choice->host), nameOf(choice->wire)};
}

TEST(ChooseTransportsTest, SharesMemoryInsideAHostAndEncryptsBetweenHosts) {
  for (const Flags& flags : {Flags{}, Flags{{"transport", "auto"}}}) {
    EXPECT_EQ(namesFor(flags, true), (Names{"shm", ""}));
    EXPECT_EQ(namesFor(flags, false), (Names{"shm", "tcp"}));
  }
}

// Nothing but its name leads to a transport that anybody on the network can read.
TEST(ChooseTransportsTest, ANamedOneCarriesAllOnOneHostAndOtherwiseWhatGoesBetweenHosts) {
  for (const char* name : {"tcp", "tcp-plain", "ucx"}) {
    EXPECT_EQ(namesFor({{"transport", name}}, true), (Names{"", name}));
    EXPECT_EQ(namesFor({{"transport", name}}, false), (Names{"shm", name}));
  }
  EXPECT_EQ(namesFor({{"transport", "shm"}}, true), (Names{"shm", ""}));
  EXPECT_THAT(
      choiceFor({{"transport", "shm"}}, false).status().message(),
      ::testing::HasSubstr("--transport is \"shm\", but this job runs on more than one host: "
                           "use auto or tcp"));
}

rendezvous::Membership membersWith(const std::vector<std::vector<std::string>>& transports) {
  rendezvous::Membership membership;
  for (const auto& names : transports) {
    rendezvous::Member& member = membership.members.emplace_back();
    for (const std::string& name : names) member.addresses[name] = "10.0.0.1:4000";
  }
  return membership;
}

TEST(AgreedWireTest, TakesWhatAllPreferAndOtherwiseTheUsualOne) {
  const auto* const tcp = transport::findTransport("tcp");
  const auto* const ucx = transport::findTransport("ucx");
  const std::vector<const transport::TransportRow*> preferred = {ucx};
  EXPECT_EQ(agreedWire(tcp, preferred, membersWith({{"tcp", "ucx"}, {"tcp", "ucx"}})), ucx);
  // One machine has no RDMA device; and this one.
  EXPECT_EQ(agreedWire(tcp, preferred, membersWith({{"tcp", "ucx"}, {"tcp"}})), tcp);
  EXPECT_EQ(agreedWire(tcp, {}, membersWith({{"tcp"}, {"tcp", "ucx"}})), tcp);
}

}  // namespace
}  // namespace colla::job
