// COLLA_CHECK ends the process with file and line when a condition that only a bug can break is
// broken. What input or a peer can cause is a Status instead.
#pragma once

namespace colla {

[[noreturn]] void checkFailed(const char* condition, const char* file, int line);

}  // namespace colla

#define COLLA_CHECK(condition) \
  ((condition) ? (void)0 : ::colla::checkFailed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define COLLA_DCHECK(condition) ((void)sizeof(!(condition)))
#else
#define COLLA_DCHECK(condition) COLLA_CHECK(condition)
#endif
