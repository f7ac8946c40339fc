// The make functions of the catalog's rows, one file per family of models.
#pragma once

#include "models/catalog.h"

namespace colla::models {

// Logistic regression: one linear layer to one logit; binary cross entropy on classes 0 and 1.
// Takes whole rows of numbers, and sparse ones (numbers of features, their values).
Result<MakeModel> makeLogistic(const DataShape& data, const Values& values);

// Linear layers with ReLU between them: `hidden` of them before the last one, each of --hidden
// units (of which `softmax`, with none, has no flag).
Result<MakeModel> makeSoftmax(const DataShape& data, const Values& values);
Result<MakeModel> makeSnn(const DataShape& data, const Values& values);
Result<MakeModel> makeMlp(const DataShape& data, const Values& values);

// DeepFam: convolutions of protein letters, the largest value of each, a dense layer.
Result<ReadOptions> readsDeepFam(const Values& values);
Result<MakeModel> makeDeepFam(const DataShape& data, const Values& values);

// Images to classes, as in Keras.
Result<MakeModel> makeResNet50V2(const DataShape& data, const Values& values);
Result<MakeModel> makeResNet101V2(const DataShape& data, const Values& values);
Result<MakeModel> makeResNet152V2(const DataShape& data, const Values& values);
Result<MakeModel> makeInceptionV3(const DataShape& data, const Values& values);

// A language model on words and the words that follow.
std::vector<Flag> languageFlags();
Result<ReadOptions> languageReads(const Values& values);
Result<MakeModel> makeLanguage(const DataShape& data, const Values& values);

// Captions for images.
std::vector<Flag> captionFlags();
Result<ReadOptions> captionReads(const Values& values);
Result<std::string> captionAdvice(const Values& values);
Result<MakeModel> makeCaptions(const DataShape& data, const Values& values);

// The numbers in one sample of the first field. kInvalidArgument unless the data set is one of
// float32 inputs of a fixed shape and a target that is one of at least two classes.
Result<std::int64_t> featuresOf(const DataShape& data);

}  // namespace colla::models
