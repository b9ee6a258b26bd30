// Registers the kernels of list.h as implementation "ref".
#include "kernels/ref/list.h"
#include "kernels/registry.h"

namespace ea {

namespace {

struct Reference {
  template <typename K>
  void kernel() const {
    register_kernel<K>("ref", ref::run<K>);
  }
};

}  // namespace

void register_ref_kernels() { ref::for_each_kernel(Reference{}); }

}  // namespace ea
