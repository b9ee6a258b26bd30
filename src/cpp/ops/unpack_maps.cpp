// Two copies; each is the transpose, hence the gradient, of the other.
#include "ops/unpack_maps.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "kernels/unpack_maps.h"
#include "kernels/window_attention.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Checks the columns of one side, on the host: they increase within each
// sequence and are below `length`.
void check_columns(const char* op, const char* side,
                   const std::vector<std::int64_t>& offsets,
                   const Tensor& columns, std::int64_t length) {
  const std::int64_t tokens = offsets.back();
  EA_CHECK(!columns.defined() || columns.shape() == Shape({tokens}), op,
           "{}_columns has shape {}, expected ({},): one for each token", side,
           columns.shape(), tokens);
  EA_CHECK_AS(DTypeError, !columns.defined() || columns.dtype() == DType::i64,
              op, "{}_columns must be int64, got {}", side, columns.dtype());
  for (std::size_t b = 1; b < offsets.size(); ++b) {
    const std::int64_t n = offsets[b] - offsets[b - 1];
    EA_CHECK(n <= length, op,
             "sequence {} has {} {} tokens, the dense maps have room for {}",
             b - 1, n, side, length);
    if (!columns.defined()) continue;
    std::int64_t before = -1;
    for (std::int64_t i = offsets[b - 1]; i < offsets[b]; ++i) {
      const std::int64_t column = columns.data<std::int64_t>()[i];
      EA_CHECK_AS(InputError, column > before && column < length, op,
                  "{}_columns[{}] = {}, expected above {}, for columns rise "
                  "within a sequence, and below {}, the size of the dense maps",
                  side, i, column, before, length);
      before = column;
    }
  }
}

// Checks `padded` and returns it with its columns on `device`.
PaddedShape checked(const char* op, const Packing& packing,
                    const PaddedShape& padded, Device device) {
  const auto side = [&](const char* name,
                        const std::vector<std::int64_t>& offsets,
                        const Tensor& columns, std::int64_t length) {
    const Tensor here =
        columns.defined() ? contiguous(to_device(columns, kCpu)) : Tensor();
    check_columns(op, name, offsets, here, length);
    return here.defined() ? to_device(here, device) : here;
  };
  return {
      padded.queries, padded.keys,
      side("query", packing.q_offsets(), padded.query_columns, padded.queries),
      side("key", packing.k_offsets(), padded.key_columns, padded.keys)};
}

// Returns how often a row of dense maps contains all keys: once per
// neighbouring head of a window.
std::int64_t blocks_of(const Packing& packing) {
  return packing.window() ? packing.window()->heads : 1;
}

Tensor unpacked(const Tensor& maps, const Packing& packing,
                const PaddedShape& padded) {
  const Tensor flat = reshape_view(contiguous(maps), {maps.numel()});
  const Tensor dense = empty({packing.sequences(), packing.heads(),
                              padded.queries, blocks_of(packing) * padded.keys},
                             maps.dtype(), maps.device());
  if (packing.window()) {
    kernels::run<UnpackWindows>({flat, dense, padded.query_columns,
                                 padded.key_columns, packing.window_layout()});
  } else {
    kernels::run<UnpackMaps>({flat, dense, padded.query_columns,
                              padded.key_columns, packing.layout()});
  }
  return dense;
}

Tensor packed(const Tensor& dense, const Packing& packing,
              const PaddedShape& padded) {
  const Tensor flat =
      empty({packing.map_elements()}, dense.dtype(), dense.device());
  if (packing.window()) {
    kernels::run<PackWindows>({flat, contiguous(dense), padded.query_columns,
                               padded.key_columns, packing.window_layout()});
  } else {
    kernels::run<PackMaps>({flat, contiguous(dense), padded.query_columns,
                            padded.key_columns, packing.layout()});
  }
  return flat;
}

}  // namespace

Var unpack_maps(const Var& maps, const PackingPtr& packing) {
  return unpack_maps(
      maps, packing,
      {packing->longest_query(), packing->longest_key(), {}, {}});
}

Var unpack_maps(const Var& maps, const PackingPtr& packing,
                const PaddedShape& padded) {
  packing->check_maps("unpack_maps", maps.numel());
  const PaddedShape to =
      checked("unpack_maps", *packing, padded, maps.device());
  const Shape shape = maps.shape();
  return record(
      "unpack_maps", unpacked(maps.data(), *packing, to), {maps},
      {to.query_columns, to.key_columns},
      [packing, shape, queries = to.queries, keys = to.keys](const Node& node,
                                                             const Tensor& dy) {
        const PaddedShape from{queries, keys, node.saved(0), node.saved(1)};
        return Node::Gradients{reshape_view(packed(dy, *packing, from), shape)};
      });
}

Var pack_maps(const Var& dense, const PackingPtr& packing,
              const Tensor& query_columns, const Tensor& key_columns) {
  EA_CHECK(dense.rank() == 4 && dense.dim(0) == packing->sequences() &&
               dense.dim(1) == packing->heads(),
           "pack_maps",
           "dense maps have shape {}, expected ({}, {}, queries, keys): the "
           "sequences and heads of the packing",
           dense.shape(), packing->sequences(), packing->heads());
  const std::int64_t blocks = blocks_of(*packing);
  EA_CHECK(dense.dim(3) % blocks == 0, "pack_maps",
           "dense maps have {} columns, expected a multiple of the {} heads of "
           "a window",
           dense.dim(3), blocks);
  const PaddedShape from =
      checked("pack_maps", *packing,
              {dense.dim(2), dense.dim(3) / blocks, query_columns, key_columns},
              dense.device());
  return record("pack_maps", packed(dense.data(), *packing, from), {dense},
                {from.query_columns, from.key_columns},
                [packing, queries = from.queries, keys = from.keys](
                    const Node& node, const Tensor& dy) {
                  const PaddedShape to{queries, keys, node.saved(0),
                                       node.saved(1)};
                  return Node::Gradients{unpacked(dy, *packing, to)};
                });
}

}  // namespace ea
