// Python's safetensors reads what we write, and we read what it writes. Runs where a Python has it:
// COLLA_TORCH_PYTHON, .venv, or the system's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "checkpoint/tensor_file.h"
#include "support/checkpoints.h"

namespace colla::checkpoint {
namespace {

// Checks that every tensor is there with its bytes, then writes the same to another file.
constexpr char kScript[] = R"(
import sys, numpy, safetensors
from safetensors.numpy import load_file, save_file
directory, written = sys.argv[1:]
raw = dict(safetensors.deserialize(open(written, "rb").read()))
assert {n: (t["dtype"], list(t["shape"])) for n, t in raw.items()} == {
    "fc.weight": ("F32", [2, 3]), "half": ("F16", [2]), "brain": ("BF16", [2]),
    "count": ("I64", []), "bytes": ("U8", [3]), "none": ("F64", [0, 2]),
}, raw
assert bytes(raw["brain"]["data"]) == b"\x80\x3f\x00\x40"
with safetensors.safe_open(written, framework="numpy") as file:
    weight = file.get_tensor("fc.weight")
    assert weight.dtype == numpy.float32 and weight.tolist() == [[0.5, 1, 2], [3, 4, -1]], weight
    assert file.get_tensor("half").tolist() == [1.0, -2.0]
    assert file.get_tensor("count").tolist() == 7
save_file({
    "w": numpy.array([[1.5, -2.5]], dtype=numpy.float32), "odd": numpy.array([1, 2, 3], dtype=numpy.uint8),
    "flags": numpy.array([True, False]), "scalar": numpy.array(9, dtype=numpy.int64),
    "half": numpy.array([0.5], dtype=numpy.float16),
}, directory + "/python.safetensors", metadata={"format": "pt"})
)";

std::string pythonWithSafetensors() {
  std::vector<std::string> candidates;
  if (const char* chosen = std::getenv("COLLA_TORCH_PYTHON")) candidates.emplace_back(chosen);
  candidates.emplace_back(COLLA_SOURCE_DIR "/.venv/bin/python");
  candidates.emplace_back("python3");
  for (const std::string& python : candidates) {
    const std::string look = "'" + python + "' -c 'import numpy, safetensors' >/dev/null 2>&1";
    if (std::system(look.c_str()) == 0) return python;
  }
  return "";
}

using PythonTest = CheckpointTest;

TEST_F(PythonTest, ReadsOurFilesAndWeReadIts) {
  const std::string python = pythonWithSafetensors();
  if (python.empty())
    GTEST_SKIP() << "no Python with numpy and safetensors; ./test makes one in .venv";
  Tensors tensors;
  tensors.add<float>("fc.weight", {2, 3}, {0.5F, 1, 2, 3, 4, -1})
      .add<Float16>("half", {2}, {{0x3c00}, {0xc000}});
  tensors.add<BFloat16>("brain", {2}, {{0x3f80}, {0x4000}}).add<std::int64_t>("count", {}, {7});
  tensors.add<std::uint8_t>("bytes", {3}, {1, 2, 3}).add<double>("none", {0, 2}, {});
  ASSERT_TRUE(writeTensorFile(scratch_.path(), "colla.safetensors", tensors.views()).ok());
  writeText(path("script.py"), kScript);
  const std::string command = "'" + python + "' '" + path("script.py") + "' '" + scratch_.path() +
                              "' '" + path("colla.safetensors") + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);

  const auto file = TensorFile::open(path("python.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 5U);  // By name: flags, half, odd, scalar, w.
  EXPECT_EQ(file->tensors()[0].type, DataType::kBool);
  EXPECT_EQ(valuesOf<std::uint8_t>(file->tensors()[0]), (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(valuesOf<std::uint16_t>(file->tensors()[1])[0], 0x3800);
  EXPECT_EQ(valuesOf<std::uint8_t>(file->tensors()[2]), (std::vector<std::uint8_t>{1, 2, 3}));
  EXPECT_EQ(valuesOf<std::int64_t>(file->tensors()[3]), (std::vector<std::int64_t>{9}));
  EXPECT_TRUE(file->tensors()[3].shape.empty());
  EXPECT_EQ(file->tensors()[4].shape, (Shape{1, 2}));
  EXPECT_EQ(valuesOf<float>(file->tensors()[4]), (std::vector<float>{1.5F, -2.5F}));
}

}  // namespace
}  // namespace colla::checkpoint
