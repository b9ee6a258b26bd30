// Reverse order of creation is a topological order: a node is younger than its
// inputs. So a priority queue replaces any analysis of the graph.
#include "autograd/engine.h"

#include <array>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "kernels/elementwise.h"
#include "kernels/registry.h"
#include "runtime/check.h"

namespace ea {

namespace {

struct Younger {
  bool operator()(const std::shared_ptr<Node>& a,
                  const std::shared_ptr<Node>& b) const {
    return a->order() < b->order();
  }
};

class Pass {
 public:
  void send(const Edge& edge, Tensor gradient) {
    if (!gradient.defined()) return;
    if (edge.leaf != nullptr) {
      // An op may hand one tensor to two inputs; a leaf's gradient is its own,
      // for the caller may change it in place.
      if (gradient.storage().use_count() > 1) gradient = clone(gradient);
      RowGradient rows = std::exchange(edge.leaf->row_grad, {});
      add_to(edge.leaf->grad, std::move(gradient));
      if (rows.defined()) add_rows_to(rows, edge.leaf->grad);
    } else if (edge.node != nullptr) {
      auto [it, fresh] = pending_.try_emplace(edge.node.get());
      if (fresh) queue_.push(edge.node);
      add_to(it->second[edge.output], std::move(gradient));
    }
  }

  void run() {
    while (!queue_.empty()) {
      const std::shared_ptr<Node> node = queue_.top();
      queue_.pop();
      auto pending = std::move(pending_[node.get()]);
      pending_.erase(node.get());
      if (node->unfolds()) {
        unfold(*node, pending);
        continue;
      }
      Node::Gradients gradients = node->run_backward(pending[0], pending[1]);
      pending = {};
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        send(node->edges()[i], std::move(gradients[i]));
      }
    }
  }

 private:
  using Pending = std::array<Tensor, Node::kMaxOutputs>;  // by output

  // The graph that takes the node's place runs in this pass, where the nodes
  // would have run that were not kept: gradients meet in the same order.
  void unfold(Node& node, Pending& pending) {
    std::vector<Edge> edges;
    for (const Var& output : node.unfold()) edges.push_back(edge_of(output));
    for (std::size_t i = 0; i < edges.size(); ++i) {
      send(edges[i], std::move(pending[i]));
    }
  }

  // A gradient tensor may be shared (an op can pass dy through to two inputs,
  // the caller may hold what a leaf had): the sum takes the place of one that
  // nobody else holds, and is a new tensor only where there is none.
  static void add_to(Tensor& slot, Tensor gradient) {
    if (!slot.defined()) {
      slot = gradient.is_contiguous() ? std::move(gradient) : clone(gradient);
      return;
    }
    const Tensor more = contiguous(gradient);
    gradient = {};
    const auto alone = [](const Tensor& t) {
      return t.storage().use_count() == 1;
    };
    const Tensor target = alone(slot)   ? slot
                          : alone(more) ? more
                                        : empty_like(slot);
    kernels::run<Axpby>({1.0, slot, 1.0, more, target});
    slot = target;
  }

  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>,
                      Younger>
      queue_;
  std::unordered_map<Node*, Pending> pending_;
};

}  // namespace

void accumulate_rows(Var::Impl& leaf, RowGradient rows) {
  if (leaf.grad.defined()) {
    // The caller may hold what the leaf had.
    if (leaf.grad.storage().use_count() > 1 || !leaf.grad.is_contiguous()) {
      leaf.grad = clone(leaf.grad);
    }
    add_rows_to(rows, leaf.grad);
  } else if (leaf.row_grad.defined()) {
    leaf.row_grad = add_rows(leaf.row_grad, rows);
  } else {
    leaf.row_grad = std::move(rows);
  }
}

void accumulate(const Tensor& x, const Tensor& y) {
  kernels::run<Axpby>({1.0, y, 1.0, x, y});
}

void backward(const Var& root, const Tensor& gradient) {
  EA_CHECK_AS(InputError, root.requires_grad(), "backward",
              "the tensor does not require a gradient: nothing it was made of "
              "has requires_grad=True, or it was made inside no_grad()");
  Tensor seed = gradient;
  if (!seed.defined()) {
    EA_CHECK(root.numel() == 1, "backward",
             "a gradient is needed for shape {}: only one-element tensors "
             "have an implicit one",
             root.shape());
    seed = full(root.shape(), root.dtype(), 1.0, root.device());
  }
  EA_CHECK(seed.shape() == root.shape() && seed.dtype() == root.dtype(),
           "backward", "gradient is {} {}, the tensor {} {}", seed.dtype(),
           seed.shape(), root.dtype(), root.shape());
  EA_CHECK_AS(DeviceError, seed.device() == root.device(), "backward",
              "gradient lies on {}, the tensor on {}; use .to(device)",
              seed.device(), root.device());
  const NoGrad no_grad;
  Pass pass;
  pass.send(edge_of(root), seed);
  pass.run();
}

}  // namespace ea
