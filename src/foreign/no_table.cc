#include <fmt/format.h>

#include "foreign/table.h"

namespace colla::foreign {

Status readTable(const std::string& path,
                 const std::function<Status(std::string_view, std::string_view)>& /*take*/) {
  return {StatusCode::kUnsupported,
          fmt::format("cannot read {}: this Colla was built without LevelDB; install Debian's "
                      "libleveldb-dev and build it again",
                      path)};
}

}  // namespace colla::foreign
