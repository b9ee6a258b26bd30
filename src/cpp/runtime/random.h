// The generator's whole state: a seed and how many draws were made.
#pragma once

#include <cstdint>

namespace ea {

struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

void manual_seed(std::uint64_t seed);  // sets the offset to 0
RandomState random_state();
void set_random_state(RandomState state);

// The (seed, stream) of one random op; every call returns a new stream.
RandomState next_random_stream();

}  // namespace ea
