// Slurm's compressed lists, as they stand in its variables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colla::job::slurm {

// "2(x3),1" as {2, 2, 2, 1}; empty if it is no such list.
std::vector<int> tasksPerNode(std::string_view list);

// "node[07-08],gpu1" as {node07, node08, gpu1}; empty if it is no such list.
std::vector<std::string> nodeNames(std::string_view list);

// "node07" of "node[07-09,12],gpu1"; empty if there is none.
std::string firstNode(std::string_view list);

}  // namespace colla::job::slurm
