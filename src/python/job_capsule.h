// How a job gets from colla._core to colla._torch, which do not know each other's Python types:
// `Job.handle` is a capsule of this name with a std::shared_ptr<Job> in it.
#pragma once

namespace colla::python {

inline constexpr const char* kJobCapsule = "colla.Job";

}  // namespace colla::python
