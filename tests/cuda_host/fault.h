// What an emulated kernel did wrong, as an error with a type of its own.
#pragma once

#include <string>

#include "runtime/error.h"

namespace ea::emulation {

class KernelFault : public Error {
 public:
  using Error::Error;
};

// "block (3, 0, 0), thread (17, 0, 0): ", or nothing outside a kernel.
std::string place();
void abandon_kernel();  // there is no place any more

// Calls body(context). A signal on the way (a guard page, undefined behaviour)
// leaves it at once, without running destructors, and becomes a KernelFault
// that begins with [what].
void run_caught(const char* what, void (*body)(void* context), void* context);

}  // namespace ea::emulation
