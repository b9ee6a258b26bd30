// The pool of offsets, for the test that calls it through ctypes.
#include "runtime/offset_pool.h"

#define EA_C extern "C" __attribute__((visibility("default")))

EA_C ea::OffsetPool* ea_pool_make(unsigned long long bytes) {
  return new ea::OffsetPool(bytes);
}

EA_C void ea_pool_free(ea::OffsetPool* pool) { delete pool; }

// -1 where there is no place.
EA_C long long ea_pool_take(ea::OffsetPool* pool, unsigned long long bytes) {
  const auto offset = pool->take(bytes);
  return offset ? static_cast<long long>(*offset) : -1;
}

EA_C void ea_pool_give(ea::OffsetPool* pool, unsigned long long offset) {
  pool->give(offset);
}

// The end of all that was ever taken, the places taken now, and their bytes.
EA_C void ea_pool_state(const ea::OffsetPool* pool, long long* found) {
  found[0] = static_cast<long long>(pool->most());
  found[1] = static_cast<long long>(pool->places());
  found[2] = static_cast<long long>(pool->bytes());
}
