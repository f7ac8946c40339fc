#include "base/version.h"

namespace colla {

std::string_view version() { return COLLA_VERSION; }

}  // namespace colla
