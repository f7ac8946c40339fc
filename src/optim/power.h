// base^exponent by multiplication alone. The C library's pow() has a version per CPU, and those
// may differ in the last bit; this is the same wherever a double is.
#pragma once

#include <cstdint>

namespace colla::optim {

// For exponents of 0 and more.
inline double power(double base, std::int64_t exponent) {
  // The wider type keeps the squarings' rounding errors out of the result.
  long double result = 1;
  for (long double square = base; exponent > 0; exponent /= 2, square *= square) {
    if (exponent % 2 == 1) result *= square;
  }
  return static_cast<double>(result);
}

}  // namespace colla::optim
