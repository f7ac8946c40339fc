#include "fetch/table.h"

#include <algorithm>

namespace colla::fetch {
namespace {

// MD5 sums are the publishers' own, or those that torchvision checks. None of the addresses could
// be tried where this table was written.
const std::vector<PublishedSet>& all() {
  static const std::vector<PublishedSet> sets = {
      {"mnist",
       "handwritten digits, 70,000 images of 28x28",
       "mnist:",
       {{"train-images-idx3-ubyte.gz", 9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
        {"train-labels-idx1-ubyte.gz", 28881, "d53e105ee54ea40749a09fcbcd1e9432"},
        {"t10k-images-idx3-ubyte.gz", 1648877, "9fb629c4189551a2d022fa330f9573f3"},
        {"t10k-labels-idx1-ubyte.gz", 4542, "ec29112dd5afa0611ce80d1b7f02629c"}},
       {"https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/"},
       false,
       ""},
      {"fashion-mnist",
       "articles of clothing, 70,000 images of 28x28",
       "mnist:",
       {{"train-images-idx3-ubyte.gz", 26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
        {"train-labels-idx1-ubyte.gz", 29515, "25c81989df183df01b3e8a0aad5dffbe"},
        {"t10k-images-idx3-ubyte.gz", 4422102, "bef4ecab320f06d8554ea6380940ec79"},
        {"t10k-labels-idx1-ubyte.gz", 5148, "bb300cfdad3c16e7a12a480ee83cd310"}},
       {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
       false,
       ""},
      {"cifar10",
       "ten kinds of things, 60,000 images of 32x32",
       "cifar10:",
       {{"cifar-10-binary.tar.gz", 170052171, "c32a1d4ab5d03f1284b67883e8d87530"}},
       {"https://www.cs.toronto.edu/~kriz/"},
       false,
       ""},
      {"cifar100",
       "a hundred kinds of things, 60,000 images of 32x32",
       "cifar100:",
       {{"cifar-100-binary.tar.gz", 0, "03b5dce01913d631647c71ecec9e9cb8"}},
       {"https://www.cs.toronto.edu/~kriz/"},
       false,
       ""},
      {"gpcr",
       "protein sequences of G-protein-coupled receptors, for DeepFam",
       "proteins:",
       {},
       {},
       false,
       "the authors of DeepFam publish the sequences with their program "
       "(github.com/bhi-kimlab/DeepFam), "
       "without a checksum: fetch them there, and train with --data proteins:FOLDER"},
      {"coco",
       "photographs with five captions each",
       "captions:",
       {},
       {},
       false,
       "fetch the images and captions of 2014 or 2017 from cocodataset.org (19 GB), then: colla "
       "data "
       "captions --images FOLDER --annotations FILE --out captions"},
  };
  return sets;
}

}  // namespace

std::span<const PublishedSet> publishedSets() { return all(); }

const PublishedSet* findSet(std::string_view name) {
  const auto found = std::ranges::find(all(), name, &PublishedSet::name);
  return found == all().end() ? nullptr : &*found;
}

}  // namespace colla::fetch
