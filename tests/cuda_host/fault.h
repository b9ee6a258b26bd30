// Errors of emulated kernels, as an exception type of their own.
#pragma once

#include <string>

#include "runtime/error.h"

namespace ea::emulation {

class KernelFault : public Error {
 public:
  using Error::Error;
};

// Returns "block (3, 0, 0), thread (17, 0, 0): ", or "" outside a kernel.
std::string place();
void abandon_kernel();  // place() returns "" from here on

// Calls body(context). A signal during the call (guard page, undefined
// behaviour) leaves it at once, without running destructors, and becomes a
// KernelFault whose text starts with [what on cuda_host].
void run_caught(const char* what, void (*body)(void* context), void* context);

}  // namespace ea::emulation
