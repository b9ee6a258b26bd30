// Attention along the edges of a graph (Velickovic et al., ICLR 2018): a node
// attends only to the nodes from which an edge leads to it.
#include "nn/attention/registry.h"
#include "nn/attention/scope/packed_scope.h"
#include "ops/pair_sum.h"

namespace ea {

namespace {

class EdgesScope final : public PackedScope {
 public:
  PackingPtr maps(const PackingPtr& tokens) const override {
    return Packing::along_edges(tokens);
  }
  // Edges do not form a grid of queries and keys.
  bool grid() const override { return false; }

  Var pair_sum(const Var& u, const Var& v,
               const AttentionContext& context) const override {
    return ea::pair_sum(u, v, context.maps);
  }
};

const Register<Scope> kEdges({
    "edges",
    "Velickovic et al., ICLR 2018",
    {},
    [](const Options&, const SlotSite&) {
      return std::make_unique<EdgesScope>();
    },
});

}  // namespace

}  // namespace ea
