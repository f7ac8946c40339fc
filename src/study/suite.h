// Several studies in one directory, made one after the other, with a page for all of them.
//
//   DIR/suite.json     which parts there are
//   DIR/PART/          the directory of each part's study
//   DIR/report.html    the page of all
#pragma once

#include <string>
#include <vector>

#include "study/options.h"
#include "study/study.h"

namespace colla::study {

struct SuitePart {
  std::string name;   // A folder's name.
  std::string title;  // For people.
  Options options;
};

// `request`: what all parts have in common. Its budget is that of all parts together: each gets an
// equal share of what is left. Returns the exit code, as runStudy() does; a part that fails does
// not stop the others.
int runSuite(const std::string& name, const Request& request, const std::vector<SuitePart>& parts);

// Whether `directory` holds a suite; its name.
std::string suiteIn(const std::string& directory);

}  // namespace colla::study
