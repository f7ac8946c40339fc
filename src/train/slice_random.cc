// libtorch's default generator belongs to the process. Its dispatcher, though, looks at keys that a
// thread has switched on before it calls a kernel: on such a key we register, for every operator
// that takes an optional generator, a kernel that fills in the slice's one and calls on. All other
// operators fall through the key at no cost.
//
// The key is DeferredInit, which libtorch keeps for extensions from outside and does not use.
#include "train/slice_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace colla::train {
namespace {

constexpr auto kRandomKey = c10::DispatchKey::DeferredInit;

thread_local SliceRandom* innermost = nullptr;

bool isOptionalGenerator(const c10::Argument& argument) {
  const auto* optional = argument.type()->castRaw<c10::OptionalType>();
  return optional != nullptr && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

void callWithGenerator(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                       torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const std::size_t first = stack->size() - arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    if (isOptionalGenerator(arguments[i]) && value.isNone() && innermost != nullptr) {
      value = innermost->generator();
    }
  }
  const c10::impl::ExcludeDispatchKeyGuard guard(kRandomKey);
  op.callBoxed(stack);
}

// For the rest of the process's life, as libtorch's own kernels are.
void registerRandom() {
  static torch::Library others(torch::Library::IMPL, "_", kRandomKey, __FILE__, __LINE__);
  static torch::Library aten(torch::Library::IMPL, "aten", kRandomKey, __FILE__, __LINE__);
  others.fallback(torch::CppFunction::makeFallthrough());

  auto& dispatcher = c10::Dispatcher::singleton();
  constexpr std::string_view kNamespace = "aten::";
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !name.name.starts_with(kNamespace)) continue;
    if (std::ranges::none_of(op->schema().arguments(), isOptionalGenerator)) continue;
    std::string full = name.name.substr(kNamespace.size());
    if (!name.overload_name.empty()) full += "." + name.overload_name;
    aten.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&callWithGenerator>());
  }
}

// Runs before the guard switches the key on.
std::uint64_t registered(std::uint64_t seed) {
  static const bool once = (registerRandom(), true);
  static_cast<void>(once);
  return seed;
}

}  // namespace

SliceRandom::SliceRandom(std::uint64_t seed)
    : seed_(registered(seed)), outer_(innermost), guard_(kRandomKey) {
  innermost = this;
}

SliceRandom::~SliceRandom() { innermost = outer_; }

const at::Generator& SliceRandom::generator() {
  if (!generator_) generator_ = at::detail::createCPUGenerator(seed_);
  return *generator_;
}

}  // namespace colla::train
