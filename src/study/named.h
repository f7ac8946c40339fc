// The published experiments that a study can reproduce: for each, what `colla study NAME` measures.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "study/options.h"

namespace colla::study {

struct NamedStudy {
  std::string_view name;
  std::string_view summary;  // For --help: a phrase.
  // What the study is; flags of the command line change it afterwards.
  Options (*options)();
  std::vector<std::string> (*notes)();  // Sentences for its report.
};

std::span<const NamedStudy> namedStudies();
const NamedStudy* findNamed(std::string_view name);

}  // namespace colla::study
