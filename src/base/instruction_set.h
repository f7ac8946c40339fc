// Which build of a kernel this CPU can run. Kernels are compiled once per instruction set from one
// body, with options that give all of them the same bits, so the choice changes speed alone.
#pragma once

namespace colla {

// Asked once; always false on other architectures than x86-64.
bool hasAvx2();

}  // namespace colla
