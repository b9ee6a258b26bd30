// The twin of the tensor-core tile product.
#include "emulation.h"

namespace ea::emulation {

namespace {

// The operands of a tile product in the order of its sums.
struct Tile {
  float a[16][16], b[8][16];  // (row, k) and (column, k)
  std::uint64_t exchange = 0;

  // Half `half` of register `i` of a lane: a bfloat16 is a float's upper half.
  static float element(const Deposit& lane, int i, int half) {
    std::uint32_t word;
    std::memcpy(&word, lane.bytes + 4 * i, sizeof word);
    word = half == 0 ? word << 16 : word & 0xffff0000u;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
  void decode(const Deposit* all) {
    for (int k = 0; k < 16; ++k) {
      const int t = k % 8 / 2, half = k % 2;
      for (int row = 0; row < 16; ++row) {
        a[row][k] = element(all[row % 8 * 4 + t], row / 8 + k / 8 * 2, half);
      }
      for (int column = 0; column < 8; ++column) {
        b[column][k] = element(all[column * 4 + t], 4 + k / 8, half);
      }
    }
  }
};

}  // namespace

void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4],
                  const std::uint32_t (&b)[2]) {
  static Tile tile;
  std::uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const Deposit* all = exchange(0xffffffffu, mine, sizeof mine);
  // Once for all lanes: no other exchange ends before the last has gone on.
  if (tile.exchange != exchange_number()) tile.decode(all);
  tile.exchange = exchange_number();
  for (int i = 0; i < 4; ++i) {
    const float* const row = tile.a[lane() / 4 + i / 2 * 8];
    const float* const column = tile.b[lane() % 4 * 2 + i % 2];
    for (int k = 0; k < 16; ++k) c[i] += row[k] * column[k];
  }
}

}  // namespace ea::emulation
