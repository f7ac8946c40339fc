// DLPack, the way in which frameworks lend each other arrays: the part of its binary interface that
// we use (version 1.2 of the standard).
//
// An array says where it lies in one of two ways: its type has the attribute
// __dlpack_c_exchange_api__, a table of C functions that costs no Python call, or the object has
// the method __dlpack__(), which returns a capsule.
#pragma once

#include <cstdint>

namespace colla::python::dlpack {

inline constexpr std::uint32_t kMajor = 1;
inline constexpr std::uint32_t kMinor = 2;

// Names of capsules.
inline constexpr const char* kLegacyCapsule = "dltensor";
inline constexpr const char* kVersionedCapsule = "dltensor_versioned";
inline constexpr const char* kExchangeCapsule = "dlpack_exchange_api";

inline constexpr std::int32_t kCpu = 1;
inline constexpr std::uint64_t kReadOnly = 1;  // A flag of a VersionedTensor.

// Codes of ElementType.
inline constexpr std::uint8_t kInt = 0;
inline constexpr std::uint8_t kUInt = 1;
inline constexpr std::uint8_t kFloat = 2;
inline constexpr std::uint8_t kBFloat = 4;
inline constexpr std::uint8_t kComplex = 5;
inline constexpr std::uint8_t kBool = 6;

struct Device {
  std::int32_t type = kCpu;
  std::int32_t id = 0;
};

struct ElementType {
  std::uint8_t code = kFloat;
  std::uint8_t bits = 32;
  std::uint16_t lanes = 1;
};

struct Tensor {
  void* data = nullptr;
  Device device;
  std::int32_t dimensions = 0;
  ElementType type;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // In elements; null: row-major without gaps.
  std::uint64_t offset = 0;         // In bytes, from `data`.
};

// What capsules hold. The deleter frees the struct as well.
struct LegacyTensor {
  Tensor tensor;
  void* context = nullptr;
  void (*deleter)(LegacyTensor* self) = nullptr;
};

struct Version {
  std::uint32_t major = kMajor;
  std::uint32_t minor = kMinor;
};

struct VersionedTensor {
  Version version;
  void* context = nullptr;
  void (*deleter)(VersionedTensor* self) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor;
};

// The C functions of a framework, up to the one that we call.
struct ExchangeApi {
  Version version;
  ExchangeApi* older = nullptr;  // For consumers of an older major version.
  void (*allocate)() = nullptr;
  void (*fromObject)() = nullptr;
  void (*toObject)() = nullptr;
  // Fills `tensor`, which is valid as long as `object` is. -1 with a Python exception; the pointer
  // itself may be null.
  int (*describe)(void* object, Tensor* tensor) = nullptr;
};

}  // namespace colla::python::dlpack
