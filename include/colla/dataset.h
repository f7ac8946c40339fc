// Samples by number: what a training reads from.
//
// A data set says what samples it has; the order in which a job reads them, the cut into slices and
// the reading ahead are the Trainer's. To bring data of your own, derive from Dataset, or hand
// arrays that lie in memory to ArrayDataset (colla/array_dataset.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/array.h"
#include "colla/random.h"
#include "colla/status.h"

namespace colla {

// Some samples: one Array for each field, its first dimension the samples. By convention inputs
// come first and the target last; a class is an int64.
using Batch = std::vector<Array>;

// What each sample has one of.
struct Field {
  std::string name;
  DataType type = DataType::kFloat32;
  // Of one sample; empty for a single number. -1 for a dimension that varies: a batch is as long
  // there as its longest sample, and its lengths are a field of their own.
  std::vector<std::int64_t> shape;
};

// Thread safe: several threads read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // The number of samples.
  virtual std::int64_t size() const = 0;
  virtual std::vector<Field> fields() const = 0;
  // The number of classes that the target distinguishes; 0 where it is not a class.
  virtual std::int64_t classes() const { return 0; }
  // What the classes are called, by number; empty where they have no names.
  virtual std::vector<std::string> words() const { return {}; }
  // Where the first field holds numbers of things (letters, words, features), from 0 to one below
  // this; 0 where it does not.
  virtual std::int64_t symbols() const { return 0; }
  // Reading costs no more than copying memory: reading ahead in threads would only cost time.
  virtual bool inMemory() const { return false; }

  // Arrays that it holds and that nobody writes to any more, such as all of its samples. Where the
  // workers of a host have the same bytes in large ones (Array::allocate() of 32 MiB or more), they
  // keep them once; the arrays stay where they are.
  virtual std::vector<Array> held() const { return {}; }

  // The samples with these numbers, in this order; none is fine too, and gives arrays without rows.
  // Whatever is random (a crop, a flip) comes from `random`, and from nothing else. An error names
  // the file and the record. The Trainer compares each batch with fields(), and ends where a field,
  // a row, a shape or a type differs.
  virtual Result<Batch> read(std::span<const std::int64_t> indices, Random& random) const = 0;

  // One line: what it is, how many samples, the shape and type of each field.
  virtual std::string describe() const = 0;
};

// "60000 samples of image float32 1x28x28, label int64 (10 classes)": for describe().
std::string describeSamples(const Dataset& dataset);

enum class Part : std::uint8_t { kTrain, kTest };
std::string_view toString(Part part);

// What a model wants of the samples; 0 and empty: as the data set has them.
struct ReadOptions {
  // Images are scaled to this size.
  std::int64_t height = 0;
  std::int64_t width = 0;
  // Images of the training part are cropped and flipped at random.
  bool augment = false;
  // Letters or words of a sequence: longer ones are cut, shorter ones padded.
  std::int64_t length = 0;
  // The file that numbers the words.
  std::string vocabulary = {};
};

// Opens the data set that `text` names: "synthetic:mnist", "mnist:FOLDER", or a folder whose files
// say what it is. An unknown name is refused with a list of what there is.
Result<std::shared_ptr<const Dataset>> openDataset(std::string_view text, Part part,
                                                   const ReadOptions& options = {});

}  // namespace colla
