#include "models.h"

#include "models/catalog.h"

namespace colla::bench {
namespace {

// With the catalog's flags, but for those in `changed`.
Result<MakeModel> catalogModel(std::string_view name, const models::DataShape& data,
                               const models::Values& changed = {}) {
  COLLA_TRY_ASSIGN(const models::Entry* const entry, models::findModel(name));
  models::Values values = changed;
  values.merge(models::defaults(entry->flags));
  return entry->make(data, values);
}

models::DataShape rowsOf(std::int64_t features, std::int64_t classes) {
  return {{{"input", DataType::kFloat32, {features}}, {"target", DataType::kInt64, {}}}, classes};
}

Result<MakeModel> deepFam(const char* norm) {
  const models::DataShape data{
      {{"sequence", DataType::kUInt8, {1000}}, {"label", DataType::kInt64, {}}}, 48, 25};
  return catalogModel("deepfam", data, {{"keep-prob", "1"}, {"norm", norm}});
}

Result<MakeModel> imageNet(std::string_view name) {
  const models::DataShape data{
      {{"image", DataType::kFloat32, {3, 128, 128}}, {"label", DataType::kInt64, {}}}, 10};
  return catalogModel(name, data, {{"input", "128x128"}});
}

Result<MakeModel> languageModel() {
  const models::DataShape data{
      {{"words", DataType::kInt64, {20}}, {"next", DataType::kInt64, {20}}}, 0, 200'000};
  return catalogModel("lm", data, {{"dropout", "0"}});
}

}  // namespace

Result<MakeModel> modelNamed(std::string_view name) {
  if (name == "deepfam") return deepFam("batch");
  if (name == "deepfam-none") return deepFam("none");
  if (name == "resnet50v2" || name == "inceptionv3") return imageNet(name);
  if (name == "lm") return languageModel();
  if (name == "lr") return catalogModel(name, rowsOf(10'000, 2));
  return catalogModel(name, rowsOf(784, 10));
}

}  // namespace colla::bench
