// Models of the catalog by name, made with some of their flags given and the rest by default.
#pragma once

#include <string>
#include <string_view>

#include "colla/error.h"
#include "models/catalog.h"

namespace colla::models {

inline const Entry& entryOf(std::string_view name) { return *valueOrThrow(findModel(name)); }

inline Result<MakeModel> tryMake(std::string_view name, const DataShape& data,
                                 const Values& given) {
  const Entry& entry = entryOf(name);
  Values values = defaults(entry.flags);
  for (const auto& [flag, value] : given) values[flag] = value;
  return entry.make(data, values);
}

inline std::string refusal(std::string_view name, const DataShape& data, const Values& given) {
  return std::string(tryMake(name, data, given).status().message());
}

}  // namespace colla::models
