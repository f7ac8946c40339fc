// `colla slurm` as a user types it; tests/cluster has the real Slurm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/command.h"

namespace colla::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SlurmCommand, WritesTheFile) {
  const Scratch scratch;
  const Outcome done = runColla(
      scratch.path(), "slurm --nodes 2 --module a --module b -- train lr --then eval lr r");
  EXPECT_EQ(done.exitCode, 0) << done.error;
  EXPECT_EQ(done.out, "lr.sbatch is written; submit it with: sbatch lr.sbatch\n");
  const std::string text = readText(scratch.path() + "/lr.sbatch");
  EXPECT_THAT(text, StartsWith("#!/bin/bash\n#SBATCH --job-name=lr\n#SBATCH --nodes=2\n"));
  EXPECT_THAT(text, HasSubstr("module load a\nmodule load b\n"));
  EXPECT_THAT(text, HasSubstr("/colla eval lr r\n"));
  // Its own file is written again, somebody else's is not.
  EXPECT_EQ(runColla(scratch.path(), "slurm -- train lr").exitCode, 0);
  std::ofstream(scratch.path() + "/lr.sbatch") << "#!/bin/sh\n";
  const Outcome refused = runColla(scratch.path(), "slurm -- train lr");
  EXPECT_EQ(refused.exitCode, 2);
  EXPECT_THAT(refused.error, HasSubstr("lr.sbatch is there already"));
}

TEST(SlurmCommand, RefusesInOneLine) {
  const Scratch scratch;
  const std::pair<const char*, const char*> wrong[] = {
      {"slurm", "nothing to run"},
      {"slurm --nodes 0 -- train lr", "--nodes"},
      {"slurm --time soon -- train lr", "--time is \"soon\""},
      {"slurm -- train lr --then", "no command before or after a --then"},
      {"slurm --submit --file - -- train lr", "leave out --file -"},
      {"slurm --file /nowhere/x -- train lr", "can't write /nowhere/x: No such file"},
  };
  for (const auto& [arguments, says] : wrong) {
    const Outcome done = runColla(scratch.path(), arguments);
    EXPECT_EQ(done.exitCode, 2) << arguments;
    EXPECT_THAT(done.error, HasSubstr(says)) << arguments;
    EXPECT_EQ(std::ranges::count(done.error, '\n'), 1) << done.error;
  }
  const Outcome lonely =
      runColla(scratch.path(), "slurm --submit -- train lr", COLLA_BINARY, "PATH=/nowhere");
  EXPECT_EQ(lonely.exitCode, 1);
  EXPECT_THAT(lonely.error, HasSubstr("there is no sbatch here"));
}

}  // namespace
}  // namespace colla::cli
