// The published experiments that a study can reproduce: for each, what `colla study NAME` measures.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "study/options.h"
#include "study/suite.h"

namespace colla::study {

struct NamedStudy {
  std::string_view name;
  std::string_view summary;  // For --help: a phrase.
  // What the study is; flags of the command line change it afterwards. Null for a study of several
  // parts.
  Options (*options)() = nullptr;
  std::vector<std::string> (*notes)() = nullptr;  // Sentences for its report.
  std::vector<SuitePart> (*parts)() = nullptr;    // Studies that are made one after the other.
};

std::span<const NamedStudy> namedStudies();
const NamedStudy* findNamed(std::string_view name);

}  // namespace colla::study
