// What is pure about jobs on several hosts: where processes go, what ssh's words mean, which hosts
// fit together, and messages that arrive in pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "launch/agent_channel.h"
#include "launch/doctor.h"
#include "launch/layout.h"
#include "launch/preflight.h"
#include "launch/ssh.h"

namespace colla::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LayoutTest, WorkersFillHostByHostAndServersGoRound) {
  const std::vector<HostSlots> hosts = {{"a", 2}, {"b", 2}, {"c", 4}};
  const auto layout = layOut(hosts, 3, 3, {});
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->size(), 2U);  // Nobody needs the third.
  EXPECT_THAT((*layout)[0].workers, ElementsAre(0, 1));
  EXPECT_THAT((*layout)[1].workers, ElementsAre(2));
  EXPECT_THAT((*layout)[0].servers, ElementsAre(0, 2));
  EXPECT_THAT((*layout)[1].servers, ElementsAre(1));
}

TEST(LayoutTest, ServersHaveHostsOfTheirOwn) {
  const auto layout = layOut({{"a", 1}}, 1, 2, {{"s", 1}, {"a", 1}});
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->size(), 2U);
  EXPECT_THAT((*layout)[0].servers, ElementsAre(1));
  EXPECT_EQ((*layout)[1].name, "s");
  EXPECT_THAT((*layout)[1].workers, IsEmpty());
  EXPECT_THAT((*layout)[1].servers, ElementsAre(0));
}

TEST(LayoutTest, RefusesMoreThanThereIsRoomFor) {
  EXPECT_THAT(toString(layOut({{"a", 2}}, 3, 0, {}).status()),
              HasSubstr("-np is 3, but the hosts have 2 slots"));
  EXPECT_THAT(toString(layOut({{"a", 2}}, 1, 2, {{"s", 1}}).status()),
              HasSubstr("--ps is 2, but --server-hosts has 1 slots"));
}

// Messages of OpenSSH 9.2, as it writes them.
TEST(SshTest, EveryFailureHasAReasonAndARemedy) {
  const auto explain = [](int code, const std::string& said) {
    return explainSsh("b", {.port = 2222, .identity = {}, .arguments = {}}, code, said);
  };
  EXPECT_THAT(explain(255, "ssh: Could not resolve hostname b: Name or service not known\r\n"),
              HasSubstr("there is no host of that name"));
  EXPECT_THAT(explain(255,
                      "No ED25519 host key is known for b and you have requested strict "
                      "checking.\r\nHost key verification failed.\r\n"),
              HasSubstr("connect once by hand (`ssh -p 2222 b`)"));
  EXPECT_THAT(explain(255,
                      "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\n"
                      "Host key verification failed.\r\n"),
              HasSubstr("ssh-keygen -R b"));
  EXPECT_THAT(explain(255, "root@b: Permission denied (publickey).\r\n"),
              HasSubstr("it refused the key"));
  EXPECT_THAT(explain(255, "root@b: Permission denied (publickey,keyboard-interactive).\r\n"),
              HasSubstr("it wants a password, which `colla run` never asks for"));
  EXPECT_THAT(explain(255, "ssh: connect to host b port 2222: Connection refused\r\n"),
              HasSubstr("it refuses connections at port 2222"));
  EXPECT_THAT(explain(255, "ssh: connect to host b port 22: Connection timed out\r\n"),
              HasSubstr("it does not answer"));
  EXPECT_THAT(explain(127, "sh: 1: exec: colla: not found\n"), HasSubstr("there is no Colla"));
  EXPECT_THAT(explain(255, "kex_exchange_identification: Connection closed by remote host\r\n"),
              HasSubstr("ssh ended with exit code 255 (kex_exchange_identification"));
}

// Whatever else may come later: nothing may ask, and nothing after the host is ssh's.
TEST(SshTest, NeverAsksAndEndsWithHostAndProgram) {
  const auto words = sshCommand("b", {.port = 22, .identity = "key", .arguments = {"-v"}},
                                agentCommand("/opt/it's/colla"), 7);
  EXPECT_EQ(words[2] + words[3], "-oBatchMode=yes");
  EXPECT_THAT(words, ::testing::Contains("ConnectTimeout=7"));
  ASSERT_GT(words.size(), 3U);
  EXPECT_EQ(words[words.size() - 3], "--");
  EXPECT_EQ(words[words.size() - 2], "b");
  EXPECT_THAT(words.back(), ::testing::EndsWith(R"('/opt/it'\''s/colla')"));
}

HostFacts facts(const std::string& key) {
  HostFacts facts;
  facts.key = key;
  facts.cpu = "x86_64 avx2";
  facts.torch = facts.pythonTorch = "2.13.0";
  return facts;
}

TEST(PreflightTest, HostsThatDifferAreNamedWithTheDifference) {
  std::vector<HostFacts> all = {facts("1"), facts("2"), facts("3"), facts("1")};
  all[1].cpu = "x86_64";
  all[2].pythonTorch = "";
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  const std::string text = toText(compareHosts(names, all, TorchUse::kPython), "colla run");
  EXPECT_THAT(text, HasSubstr("colla run: host b: its CPU has \"x86_64\", that of host a "
                              "\"x86_64 avx2\""));
  EXPECT_THAT(text, HasSubstr("colla run: host c: it has no torch, but host a has torch 2.13.0"));
  EXPECT_THAT(text, HasSubstr("colla run: host d: it is the same host as a"));
  EXPECT_EQ(compareHosts(names, all, TorchUse::kOwn).size(),
            2U);  // It is not Python's that counts.
}

TEST(HostFactsTest, SurviveTheWay) {
  const HostFacts own = HostFacts::ofThis();
  const auto fields = Fields::parse(own.fields().encode());
  ASSERT_TRUE(fields.ok()) << fields.status();
  const HostFacts read = HostFacts::from(*fields);
  EXPECT_EQ(read.fields().encode(), own.fields().encode());
  EXPECT_GT(read.cores, 0);
  EXPECT_GT(read.memory, 1U << 20);
  EXPECT_THAT(hostTable({"here"}, {read}), HasSubstr("here"));
}

TEST(HostFactsTest, TheFirstInterfaceThatIsThereIsChosen) {
  const std::vector<Interface> there = {{"lo", "127.0.0.1"}, {"eth0", "10.0.0.2"}};
  EXPECT_EQ(*chooseInterface("ib0,eth0,lo", there), "eth0");
  EXPECT_EQ(*chooseInterface("10.0.0.2", there), "10.0.0.2");
  EXPECT_THAT(toString(chooseInterface("ib0", there).status()),
              HasSubstr("there is no network interface ib0: there are lo (127.0.0.1), eth0"));
}

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    reader_.emplace(UniqueFd(ends[0]), UniqueFd());
    writer_.reset(ends[1]);
  }
  void write(std::string_view bytes) {
    ASSERT_EQ(::write(writer_.get(), bytes.data(), bytes.size()), bytes.size());
    ASSERT_TRUE(reader_->fill());
  }
  // The bytes of a message.
  static std::string bytesOf(Say kind, const std::string& text) {
    return std::string(asBytes(static_cast<std::uint32_t>(text.size()))) + static_cast<char>(kind) +
           text + '\n';
  }

  std::optional<AgentChannel> reader_;
  UniqueFd writer_;
};

TEST_F(ChannelTest, MessagesArriveWholeHoweverTheyAreCut) {
  const std::string all = bytesOf(Say::kBeat, "") + bytesOf(Say::kOutput, "text");
  std::vector<std::string> texts;
  for (const char byte : all) {
    write({&byte, 1});
    const auto message = reader_->next();
    ASSERT_TRUE(message.ok());
    if (*message) texts.push_back((*message)->text);
  }
  EXPECT_THAT(texts, ElementsAre("", "text"));
}

TEST_F(ChannelTest, WhatALoginShellSaysIsSkippedAndKept) {
  reader_->expectMark();
  write("Welcome to b!\nYou have mail.\n");
  EXPECT_FALSE(*reader_->next());
  write(
      "\n\x01"
      "colla agent\x02\n" +
      bytesOf(Say::kBeat, "x"));
  const auto message = reader_->next();
  ASSERT_TRUE(message.ok() && *message);
  EXPECT_EQ((*message)->text, "x");
  EXPECT_THAT(reader_->noise(), HasSubstr("Welcome to b!\nYou have mail."));
}

TEST_F(ChannelTest, AMessageThatDoesNotEndItsLineIsRefused) {
  std::string bytes = bytesOf(Say::kOutput, "text");
  bytes.back() = 'x';
  write(bytes);
  EXPECT_EQ(reader_->next().status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ChannelTest, WhatIsNoMessageIsRefused) {
  write("\xff\xff\xff\xff\x01");
  EXPECT_EQ(reader_->next().status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(Fields::parse("\x05").ok());
  EXPECT_FALSE(Fields::parse(std::string("\xff\xff\xff\x7f", 4)).ok());
}

}  // namespace
}  // namespace colla::launch
