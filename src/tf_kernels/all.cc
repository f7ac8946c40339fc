// All kernels as one file to compile: most of the time goes into TensorFlow's headers.
#include "broadcasts.cc"  // NOLINT(bugprone-suspicious-include)
#include "collective.cc"  // NOLINT(bugprone-suspicious-include)
#include "gathers.cc"     // NOLINT(bugprone-suspicious-include)
#include "place.cc"       // NOLINT(bugprone-suspicious-include)
#include "reductions.cc"  // NOLINT(bugprone-suspicious-include)
#include "session.cc"     // NOLINT(bugprone-suspicious-include)
