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

// Destination of the gradient of one input: the node that produced it, a leaf's
// gradient slot, or none.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<Var::Impl> leaf;
  int output = 0;  // index among the node's outputs
  bool wanted() const { return node != nullptr || leaf != nullptr; }
};

// Returns the destination of the gradient of `input`.
Edge edge_of(const Var& input);

class Node {
 public:
  static constexpr int kMaxOutputs = 8;
  // Gradients of the inputs, in order; undefined where not wanted.
  using Gradients = std::vector<Tensor>;
  // Gradients of the outputs; undefined where none arrived.
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
  // Returns input i of the op: saved(i), or, if the op did not save it, the
  // output recomputed by the node that produced it; see to_save().
  Tensor input(std::size_t i) const;

  // Gradient of the second output, undefined if there is none. Only a node with
  // a second output may receive an undefined dy.
  const Tensor& second_gradient() const { return second_gradient_; }

  // Runs backward once, then frees the saved tensors. Throws InputError on a
  // second call, since the graph is freed, and if a saved tensor was written
  // since it was saved.
  Gradients run_backward(const Arrived& dy);

  // Whether unfold() replaces run_backward(); false after unfold().
  bool unfolds() const { return unfold_ != nullptr; }
  // Computes the outputs again: their nodes are newer than all others, lead to
  // the same inputs, and replace this node.
  std::vector<Var> unfold();
  const std::vector<std::shared_ptr<Var::Impl>>& inner_leaves() const {
    return inner_;
  }

  // Recomputes the output; see remakable().
  using Remake = std::function<Tensor(const Node&)>;
  void set_remake(Remake remake) { remake_ = std::move(remake); }
  bool remakes() const { return remake_ != nullptr; }
  // The output, recomputed once and kept until this node's backward.
  const Tensor& remade();

  // Adds a destination for the gradient of an output in backward.
  // take_retained() returns all destinations and clears the list.
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
  std::vector<std::uint64_t> writes_;  // writes() of their storages when saved
  Backward backward_;
  Unfold unfold_;
  Remake remake_;
  Tensor remade_;
  std::vector<std::shared_ptr<Var::Impl>> inner_;
  std::vector<std::pair<int, Retained>> retained_;
  Observer observer_;
  Tensor second_gradient_;
};

// Returns the order() of the next node.
std::uint64_t next_node_order();

// Returns the leaves reachable from `roots`, one for each edge to a leaf,
// including the edges that unfolding will add. The order depends only on the
// graph. Nodes older than `since` are not visited.
std::vector<std::shared_ptr<Var::Impl>> leaves_behind(
    const std::vector<Edge>& roots, std::uint64_t since = 0);

// Creates the output of an op. `saved` declares every tensor that the backward
// reads; `backward` captures plain numbers only. In NoGrad, or if no input
// requires a gradient, nothing is recorded and the saved tensors are released.
Var record(const char* name, Tensor y, std::initializer_list<Var> inputs,
           std::vector<Tensor> saved, Node::Backward backward);
// For an op of any number of inputs.
Var record(const char* name, Tensor y, const std::vector<Var>& inputs,
           std::vector<Tensor> saved, Node::Backward backward);

// Marks y as the output of a cheap op whose node can recompute it
// bit-identically from its saved tensors, so the ops that read y need not save
// it. Returns y.
Var remakable(Var y, Node::Remake remake);

// Returns the tensor that an op saves for its input x, to read it as
// node.input(): `data` (x in the form that the op reads), or an undefined
// tensor if the node of x can recompute it.
Tensor to_save(const Var& x, Tensor data);

// Creates a second output of the op that produced `first`. Its gradient reaches
// that op's backward as second_gradient().
Var second_output(const Var& first, Tensor y);

// Returns whether an op on these inputs would be recorded.
bool recording(std::initializer_list<Var> inputs);

}  // namespace ea
