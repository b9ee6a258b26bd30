// Records operations and runs their backward functions.
#include "autograd/node.h"

#include <atomic>
#include <unordered_set>

#include "runtime/check.h"

namespace ea {

namespace {
std::atomic<std::uint64_t> next_order{0};

std::uint64_t writes_to(const Tensor& t) {
  return t.defined() ? t.storage()->writes() : 0;
}
}  // namespace

Node::Node(const char* name, std::vector<Edge> edges, std::vector<Tensor> saved,
           Backward backward)
    : name_(name),
      order_(next_order.fetch_add(1)),
      edges_(std::move(edges)),
      saved_(std::move(saved)),
      backward_(std::move(backward)) {
  writes_.reserve(saved_.size());
  for (const Tensor& t : saved_) writes_.push_back(writes_to(t));
}

Node::Node(const char* name, std::vector<Edge> edges, std::vector<Tensor> saved,
           Unfold unfold, std::vector<std::shared_ptr<Var::Impl>> inner)
    : Node(name, std::move(edges), std::move(saved), Backward()) {
  unfold_ = std::move(unfold);
  inner_ = std::move(inner);
}

// Frees a chain of nodes in a loop: nested destructors would need stack for
// every operation since the leaves. A node with another owner is not freed
// here.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> held;
  const auto take = [&held](std::vector<Edge>& edges) {
    for (Edge& edge : edges) {
      if (edge.node) held.push_back(std::move(edge.node));
    }
  };
  take(edges_);
  while (!held.empty()) {
    const std::shared_ptr<Node> node = std::move(held.back());
    held.pop_back();
    if (node.use_count() == 1) take(node->edges_);
  }
}

void Node::check_unused() const {
  EA_CHECK_AS(InputError, backward_ != nullptr, "backward",
              "the graph behind '{}' was already used and freed; run the "
              "forward pass again before a second backward",
              name_);
}

void Node::check_unwritten() const {
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    EA_CHECK_AS(
        InputError, writes_to(saved_[i]) == writes_[i], "backward",
        "a tensor {} that '{}' needs was written after the forward "
        "pass (a step of an optimizer, copy_, x += y), so the gradient would "
        "be wrong; call backward() before that, or run the forward "
        "pass again",
        saved_[i].shape(), name_);
  }
}

Tensor Node::input(std::size_t i) const {
  return saved_[i].defined() ? saved_[i] : edges_[i].node->remade();
}

const Tensor& Node::remade() {
  check_unused();
  if (!remade_.defined()) {
    check_unwritten();
    remade_ = remake_(*this);
  }
  return remade_;
}

Node::Gradients Node::run_backward(const Arrived& dy) {
  check_unused();
  check_unwritten();
  if (observer_) {
    observer_(*this, dy);
    observer_ = nullptr;
  }
  second_gradient_ = dy[1];
  Gradients gradients = backward_(*this, dy[0]);
  second_gradient_ = {};
  backward_ = nullptr;
  remake_ = nullptr;
  remade_ = {};
  saved_.clear();
  return gradients;
}

std::vector<Var> Node::unfold() {
  check_unwritten();
  std::vector<Var> inputs;
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const Edge& edge = edges_[i];
    if (edge.leaf) {
      inputs.emplace_back(edge.leaf);
    } else if (edge.node) {
      inputs.emplace_back(saved_[i], edge.node);
      inputs.back().impl()->output = edge.output;
    } else {
      inputs.push_back(saved_[i].defined() ? Var(saved_[i]) : Var());
    }
  }
  const GradMode grad(true);
  std::vector<Var> outputs = unfold_(inputs);
  unfold_ = nullptr;
  saved_.clear();
  return outputs;
}

std::uint64_t next_node_order() { return next_order.load(); }

std::vector<std::shared_ptr<Var::Impl>> leaves_behind(
    const std::vector<Edge>& roots, std::uint64_t since) {
  std::vector<std::shared_ptr<Var::Impl>> leaves;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> todo;
  const auto follow = [&](const Edge& edge) {
    if (edge.leaf) leaves.push_back(edge.leaf);
    const Node* node = edge.node.get();
    if (node == nullptr || node->order() < since) return;
    if (seen.insert(node).second) todo.push_back(node);
  };
  for (const Edge& root : roots) follow(root);
  while (!todo.empty()) {
    const Node* node = todo.back();
    todo.pop_back();
    const bool folded = node->unfolds();  // its leaves are inner_leaves()
    for (const Edge& edge : node->edges()) {
      if (!folded || edge.node) follow(edge);
    }
    leaves.insert(leaves.end(), node->inner_leaves().begin(),
                  node->inner_leaves().end());
  }
  return leaves;
}

Edge edge_of(const Var& input) {
  Edge edge;
  if (input.requires_grad()) {
    edge.node = input.node();
    if (!edge.node) edge.leaf = input.impl();
    edge.output = input.impl()->output;
  }
  return edge;
}

Var remakable(Var y, Node::Remake remake) {
  if (y.node()) y.node()->set_remake(std::move(remake));
  return y;
}

Tensor to_save(const Var& x, Tensor data) {
  return x.node() && x.node()->remakes() ? Tensor() : std::move(data);
}

Var second_output(const Var& first, Tensor y) {
  Var second(std::move(y), first.node());
  second.impl()->output = 1;
  return second;
}

namespace {

template <typename Inputs>
bool records(const Inputs& inputs) {
  if (!grad_enabled()) return false;
  for (const Var& input : inputs) {
    if (input.requires_grad()) return true;
  }
  return false;
}

template <typename Inputs>
Var recorded(const char* name, Tensor y, const Inputs& inputs,
             std::vector<Tensor> saved, Node::Backward backward) {
  if (!records(inputs)) return Var(std::move(y));
  std::vector<Edge> edges;
  edges.reserve(inputs.size());
  for (const Var& input : inputs) edges.push_back(edge_of(input));
  return Var(std::move(y),
             std::make_shared<Node>(name, std::move(edges), std::move(saved),
                                    std::move(backward)));
}

}  // namespace

bool recording(std::initializer_list<Var> inputs) { return records(inputs); }

Var record(const char* name, Tensor y, std::initializer_list<Var> inputs,
           std::vector<Tensor> saved, Node::Backward backward) {
  return recorded(name, std::move(y), inputs, std::move(saved),
                  std::move(backward));
}

Var record(const char* name, Tensor y, const std::vector<Var>& inputs,
           std::vector<Tensor> saved, Node::Backward backward) {
  return recorded(name, std::move(y), inputs, std::move(saved),
                  std::move(backward));
}

}  // namespace ea
