// The sources of the peers' agents, carried in the program: an installed `colla` needs no source
// tree to run the benchmark.
#pragma once

#include <string_view>

namespace colla::bench {

extern const std::string_view kGlooAgent;
extern const std::string_view kOpenMpiAgent;
extern const std::string_view kMxnetAgent;
extern const std::string_view kTfAgent;
extern const std::string_view kTorchAgent;
extern const std::string_view kTorchModels;  // Beside it, as torch_models.py.

}  // namespace colla::bench
