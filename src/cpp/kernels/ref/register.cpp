// Registers the kernels of list.h as implementation "ref".
#include "kernels/list.h"
#include "kernels/ref/run.h"
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

void register_ref_kernels() { for_each_kernel(Reference{}); }

}  // namespace ea
