#include "named/request.h"

namespace colla::named {

std::string_view toString(Kind kind) {
  switch (kind) {
    case Kind::kAllreduce:
      return "allreduce";
    case Kind::kAllgather:
      return "allgather";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAlltoall:
      return "alltoall";
    case Kind::kReducescatter:
      return "reducescatter";
    case Kind::kBarrier:
      return "barrier";
    case Kind::kJoin:
      return "join";
    case Kind::kAddSet:
      return "adding a process set";
    case Kind::kRemoveSet:
      return "removing a process set";
  }
  return "unknown";
}

std::string_view toString(Op op) {
  switch (op) {
    case Op::kSum:
      return "sum";
    case Op::kAverage:
      return "average";
    case Op::kMin:
      return "min";
    case Op::kMax:
      return "max";
    case Op::kProduct:
      return "product";
    case Op::kAdasum:
      return "Adasum";
  }
  return "unknown";
}

}  // namespace colla::named
