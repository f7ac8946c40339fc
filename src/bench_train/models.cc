#include "models.h"

#include "models/catalog.h"

namespace colla::bench {
namespace {

Result<MakeModel> catalogModel(std::string_view name, const models::DataShape& data) {
  COLLA_TRY_ASSIGN(const models::Entry* const entry, models::findModel(name));
  return entry->make(data, models::defaults(entry->flags));
}

models::DataShape rowsOf(std::int64_t features, std::int64_t classes) {
  return {{{"input", DataType::kFloat32, {features}}, {"target", DataType::kInt64, {}}}, classes};
}

// The one that `colla train` trains, but without dropout.
Result<MakeModel> deepFam(const char* norm) {
  COLLA_TRY_ASSIGN(const models::Entry* const entry, models::findModel("deepfam"));
  models::Values values = models::defaults(entry->flags);
  values["keep-prob"] = "1";
  values["norm"] = norm;
  const models::DataShape data{
      {{"sequence", DataType::kUInt8, {1000}}, {"label", DataType::kInt64, {}}}, 48, 25};
  return entry->make(data, values);
}

}  // namespace

Result<MakeModel> modelNamed(std::string_view name) {
  if (name == "deepfam") return deepFam("batch");
  if (name == "deepfam-none") return deepFam("none");
  if (name == "lr") return catalogModel(name, rowsOf(10'000, 2));
  return catalogModel(name, rowsOf(784, 10));
}

}  // namespace colla::bench
