// Registers the kernels of list.h as implementation "ref".
#include "kernels/ref/list.h"
#include "kernels/registry.h"

namespace ea {

namespace {

struct Reference {
  template <typename K, auto entry>
  void kernel() const {
    register_kernel<K>("ref", entry);
  }
};

}  // namespace

void register_ref_kernels() { ref::for_each_kernel(Reference{}); }

}  // namespace ea
