// Emulates the tensor-core tile product and the loads of its operands.
#include "emulation.h"

namespace ea::emulation {

namespace {

// The four sums of a lane: rows r, r, r + 8, r + 8 and columns c, c + 1, c, c +
// 1 of the tile, for r = lane / 4 and c = lane % 4 * 2.
typedef float Four __attribute__((vector_size(16)));

// Operands of a tile product in the order of its sums.
struct Tile {
  Four a[8][16], b[4][16];  // (r, k) and (c / 2, k)
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
      for (int row = 0; row < 8; ++row) {
        const Deposit& lane = all[row * 4 + t];
        const float upper = element(lane, k / 8 * 2, half);
        const float lower = element(lane, k / 8 * 2 + 1, half);
        a[row][k] = Four{upper, upper, lower, lower};
      }
      for (int pair = 0; pair < 4; ++pair) {
        const float left = element(all[pair * 8 + t], 4 + k / 8, half);
        const float right = element(all[pair * 8 + 4 + t], 4 + k / 8, half);
        b[pair][k] = Four{left, right, left, right};
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
  // Decodes once for all lanes: no other exchange completes before the last
  // lane has passed here.
  if (tile.exchange != exchange_number()) tile.decode(all);
  tile.exchange = exchange_number();
  const Four* const rows = tile.a[lane() / 4];
  const Four* const columns = tile.b[lane() % 4];
  Four sums{c[0], c[1], c[2], c[3]};
  for (int k = 0; k < 16; ++k) sums += rows[k] * columns[k];
  for (int i = 0; i < 4; ++i) c[i] = sums[i];
}

void load_tiles(const void* row, bool turned, std::uint32_t (&to)[4]) {
  constexpr std::size_t kBytes = 16;
  if (reinterpret_cast<std::uintptr_t>(row) % kBytes != 0) {
    refuse("a row of a tile does not begin on 16 bytes");
  }
  const Deposit* all = exchange(0xffffffffu, row, kBytes);
  for (int i = 0; i < 4; ++i) {
    std::uint16_t pair[2];
    for (int k = 0; k < 2; ++k) {
      const int near = lane() / 4, along = lane() % 4 * 2 + k;
      const Deposit& from = all[8 * i + (turned ? along : near)];
      std::memcpy(&pair[k], from.bytes + 2 * (turned ? near : along),
                  sizeof pair[k]);
    }
    std::memcpy(&to[i], pair, sizeof to[i]);
  }
}

}  // namespace ea::emulation
