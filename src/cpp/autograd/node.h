// One recorded operation: where its inputs came from, what it saved, and how a
// gradient of its output becomes gradients of its inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/var.h"

namespace ea {

// Where the gradient of one input goes: to the node that made it, to a leaf's
// gradient slot, or nowhere.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<Var::Impl> leaf;
  int output = 0;  // of the node
  bool wanted() const { return node != nullptr || leaf != nullptr; }
};

// Where the gradient of `input` goes.
Edge edge_of(const Var& input);

class Node {
 public:
  static constexpr int kMaxOutputs = 3;
  // Gradients of the inputs, in order; an undefined tensor where not wanted.
  using Gradients = std::vector<Tensor>;
  using Backward = std::function<Gradients(const Node&, const Tensor& dy)>;

  // Makes the outputs once more from the inputs, with a graph behind them.
  using Unfold = std::function<std::vector<Var>(const std::vector<Var>&)>;

  Node(const char* name, std::vector<Edge> edges, std::vector<Tensor> saved,
       Backward backward);
  // Of recompute(): `saved` are the inputs, one an edge; `inner` the leaves
  // that the graph of unfold() will lead to, one for each of its edges there.
  Node(const char* name, std::vector<Edge> edges, std::vector<Tensor> saved,
       Unfold unfold, std::vector<std::shared_ptr<Var::Impl>> inner);
  ~Node();

  const char* name() const { return name_; }
  std::uint64_t order() const { return order_; }  // grows with every node
  const std::vector<Edge>& edges() const { return edges_; }
  // Whether input i needs its gradient: backward code skips the others.
  bool wants(std::size_t i) const { return edges_[i].wanted(); }
  const Tensor& saved(std::size_t i) const { return saved_[i]; }
  std::int64_t saved_bytes() const;

  // The gradient of the second output, undefined where there is none. Only a
  // node that has one may be handed an undefined dy.
  const Tensor& second_gradient() const { return second_gradient_; }

  // Runs once; then the saved tensors are freed. A second call throws
  // InputError: the graph is gone.
  Gradients run_backward(const Tensor& dy, const Tensor& second = {});

  // Whether unfold() stands in the place of run_backward(); no more after it.
  bool unfolds() const { return unfold_ != nullptr; }
  // The outputs once more: the nodes behind them are younger than all others,
  // lead to the same inputs, and take this one's place.
  std::vector<Var> unfold();
  const std::vector<std::shared_ptr<Var::Impl>>& inner_leaves() const {
    return inner_;
  }

 private:
  const char* name_;
  std::uint64_t order_;
  std::vector<Edge> edges_;
  std::vector<Tensor> saved_;
  Backward backward_;
  Unfold unfold_;
  std::vector<std::shared_ptr<Var::Impl>> inner_;
  Tensor second_gradient_;
};

// The order() of the node that will be made next.
std::uint64_t next_node_order();

// The leaves behind `roots`, one for each edge that leads to a leaf, those that
// unfolding will make included; in an order that the graph decides. Nodes older
// than `since` are not gone through.
std::vector<std::shared_ptr<Var::Impl>> leaves_behind(
    const std::vector<Edge>& roots, std::uint64_t since = 0);

// Makes the output of an op. `saved` declares every tensor the backward reads;
// `backward` captures plain numbers only. In NoGrad, or when no input requires
// a gradient, nothing is recorded and the saved tensors are let go.
Var record(const char* name, Tensor y, std::initializer_list<Var> inputs,
           std::vector<Tensor> saved, Node::Backward backward);

// A second output of the op that made `first`: its gradient reaches that op's
// backward as second_gradient().
Var second_output(const Var& first, Tensor y);

// Whether an op on these inputs would be recorded.
bool recording(std::initializer_list<Var> inputs);

}  // namespace ea
