// One recorded operation: the origin of its inputs, its saved tensors, and the
// function from the gradient of its output to the gradients of its inputs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/var.h"

namespace ea {

// The destination of the gradient of one input: the node that made it, a leaf's
// gradient slot, or none.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<Var::Impl> leaf;
  int output = 0;  // of the node
  bool wanted() const { return node != nullptr || leaf != nullptr; }
};

// The destination of the gradient of `input`.
Edge edge_of(const Var& input);

class Node {
 public:
  static constexpr int kMaxOutputs = 8;
  // Gradients of the inputs, in order; an undefined tensor where not wanted.
  using Gradients = std::vector<Tensor>;
  // Gradients of the outputs; an undefined tensor where none arrived.
  using Arrived = std::array<Tensor, kMaxOutputs>;
  using Backward = std::function<Gradients(const Node&, const Tensor& dy)>;

  // Computes the outputs again from the inputs, with a graph.
  using Unfold = std::function<std::vector<Var>(const std::vector<Var>&)>;

  Node(const char* name, std::vector<Edge> edges, std::vector<Tensor> saved,
       Backward backward);
  // A node of recompute(): `saved` are the inputs, one per edge; `inner` are
  // the leaves of the graph of unfold(), one for each of its edges to a leaf.
  Node(const char* name, std::vector<Edge> edges, std::vector<Tensor> saved,
       Unfold unfold, std::vector<std::shared_ptr<Var::Impl>> inner);
  ~Node();

  const char* name() const { return name_; }
  std::uint64_t order() const { return order_; }  // grows with every node
  const std::vector<Edge>& edges() const { return edges_; }
  // Whether input i needs its gradient: backward code skips the others.
  bool wants(std::size_t i) const { return edges_[i].wanted(); }
  const Tensor& saved(std::size_t i) const { return saved_[i]; }
  const std::vector<Tensor>& all_saved() const { return saved_; }
  // Input i of an op that saved it as saved(i), or left that to the node that
  // made it: see to_save().
  Tensor input(std::size_t i) const;

  // The gradient of the second output, undefined if there is none. Only a node
  // with a second output may receive an undefined dy.
  const Tensor& second_gradient() const { return second_gradient_; }

  // Runs once; then the saved tensors are freed. A second call throws
  // InputError, since the graph is freed, and so does a saved tensor that was
  // written since.
  Gradients run_backward(const Arrived& dy);

  // Whether unfold() replaces run_backward(); false after unfold().
  bool unfolds() const { return unfold_ != nullptr; }
  // Computes the outputs again: their nodes are newer than all others, lead to
  // the same inputs, and replace this node.
  std::vector<Var> unfold();
  const std::vector<std::shared_ptr<Var::Impl>>& inner_leaves() const {
    return inner_;
  }

  // Makes the output again: see remakable().
  using Remake = std::function<Tensor(const Node&)>;
  void set_remake(Remake remake) { remake_ = std::move(remake); }
  bool remakes() const { return remake_ != nullptr; }
  // The output, made again once and kept until this node's backward.
  const Tensor& remade();

  // Where backward also puts the gradients of the outputs; taking leaves none.
  void retain(int output, Retained retained) {
    retained_.emplace_back(output, std::move(retained));
  }
  std::vector<std::pair<int, Retained>> take_retained() {
    return std::move(retained_);
  }
  // Called once, before backward, with the gradients of the outputs.
  using Observer = std::function<void(const Node&, const Arrived&)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

 private:
  // Throws InputError after run_backward().
  void check_unused() const;
  // Throws InputError if a saved tensor was written since it was saved.
  void check_unwritten() const;

  const char* name_;
  std::uint64_t order_;
  std::vector<Edge> edges_;
  std::vector<Tensor> saved_;
  std::vector<std::uint64_t> writes_;  // to their storages, when saved
  Backward backward_;
  Unfold unfold_;
  Remake remake_;
  Tensor remade_;
  std::vector<std::shared_ptr<Var::Impl>> inner_;
  std::vector<std::pair<int, Retained>> retained_;
  Observer observer_;
  Tensor second_gradient_;
};

// The order() of the next node.
std::uint64_t next_node_order();

// The leaves reachable from `roots`, one for each edge to a leaf, including the
// edges that unfolding will add; the order depends only on the graph. Nodes
// older than `since` are not visited.
std::vector<std::shared_ptr<Var::Impl>> leaves_behind(
    const std::vector<Edge>& roots, std::uint64_t since = 0);

// Makes the output of an op. `saved` declares every tensor the backward reads;
// `backward` captures plain numbers only. In NoGrad, or when no input requires
// a gradient, nothing is recorded and the saved tensors are released.
Var record(const char* name, Tensor y, std::initializer_list<Var> inputs,
           std::vector<Tensor> saved, Node::Backward backward);

// The output y of a cheap op, whose node can make it again with the same bits
// from what it saves; so the ops that read y need not save it.
Var remakable(Var y, Node::Remake remake);

// What an op saves of its input x, in the form `data`, to read it as
// node.input(): `data`, or nothing where the node of x can make it again.
Tensor to_save(const Var& x, Tensor data);

// A second output of the op that made `first`: its gradient reaches that op's
// backward as second_gradient().
Var second_output(const Var& first, Tensor y);

// Whether an op on these inputs would be recorded.
bool recording(std::initializer_list<Var> inputs);

}  // namespace ea
