// Runs nodes in reverse order of creation, which is a topological order, since
// a node is newer than its inputs. So a priority queue replaces any analysis of
// the graph.
#include "autograd/engine.h"

#include <array>
#include <mutex>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "kernels/elementwise.h"
#include "kernels/registry.h"
#include "runtime/check.h"
#include "runtime/fork.h"

namespace ea {

namespace {

struct Younger {
  bool operator()(const std::shared_ptr<Node>& a,
                  const std::shared_ptr<Node>& b) const {
    return a->order() < b->order();
  }
};

// A gradient tensor may be shared: an op can pass dy through to two inputs, and
// the caller may hold a leaf's old gradient. The sum is written into a tensor
// that has no other owner, or into a new one if both are shared.
void add_to(Tensor& slot, Tensor gradient) {
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
  target.storage()->note_write();
  slot = target;
}

// Held while the gradient of a leaf changes: passes of several threads may end
// in the same leaf.
ForkMutex& gradients_mutex() {
  static ForkMutex* const one = new ForkMutex(ForkMutex::Level::gradients);
  return *one;
}

void add_dense(Var::Impl& leaf, Tensor gradient) {
  RowGradient rows = std::exchange(leaf.row_grad, {});
  add_to(leaf.grad, std::move(gradient));
  if (rows.defined()) add_rows_to(rows, leaf.grad);
}

void add_sparse(Var::Impl& leaf, RowGradient rows) {
  if (leaf.grad.defined()) {
    // The caller may hold the leaf's old gradient.
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

void add_to_leaf(Var::Impl& leaf, Var::Impl& sum) {
  const Tensor& first = sum.grad.defined() ? sum.grad : sum.row_grad.rows;
  if (!first.defined()) return;
  EA_CHECK_AS(DTypeError, first.dtype() == leaf.data.dtype(), "backward",
              "a gradient is {}, its tensor {}", first.dtype(),
              leaf.data.dtype());
  const std::lock_guard lock(gradients_mutex());
  if (sum.grad.defined()) {
    add_dense(leaf, std::move(sum.grad));
  } else {
    add_sparse(leaf, std::move(sum.row_grad));
  }
}

void retain(const Var& x, Retained to) {
  if (x.impl()->late) {
    x.impl()->late->push_back(std::move(to));
  } else if (x.node()) {
    x.node()->retain(x.impl()->output, std::move(to));
  }
}

class Pass {
 public:
  Pass(const Edge& root, const Complete& complete) : complete_(complete) {
    for (std::shared_ptr<Var::Impl>& leaf : leaves_behind({root})) {
      auto [it, fresh] = arrivals_.try_emplace(leaf.get());
      ++it->second.awaited;
      if (fresh) leaves_.push_back(std::move(leaf));
    }
  }

  void send(const Edge& edge, Tensor gradient) {
    if (edge.leaf != nullptr) return arrive(*edge.leaf, std::move(gradient));
    if (edge.node == nullptr || !gradient.defined()) return;
    auto [it, fresh] = pending_.try_emplace(edge.node.get());
    if (fresh) queue_.push(edge.node);
    add_to(it->second[edge.output], std::move(gradient));
  }

  void add_rows_of(Var::Impl& leaf, RowGradient rows) {
    add_sparse(arrivals_[&leaf].sum, std::move(rows));
  }

  void run() {
    Pass* const outer = std::exchange(current, this);
    struct Back {
      Pass* to;
      ~Back() { current = to; }
    } const back{outer};
    while (!queue_.empty()) {
      const std::shared_ptr<Node> node = queue_.top();
      queue_.pop();
      auto pending = std::move(pending_[node.get()]);
      pending_.erase(node.get());
      auto retained = node->take_retained();
      if (node->unfolds()) {
        unfold(*node, pending, std::move(retained));
        continue;
      }
      for (const auto& [output, to] : retained) {
        deliver(to, pending[static_cast<std::size_t>(output)]);
      }
      Node::Gradients gradients = node->run_backward(pending);
      pending = {};
      gradients.resize(node->edges().size());
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        send(node->edges()[i], std::move(gradients[i]));
      }
    }
    // Settle the leaves of nodes that no gradient reached.
    for (const auto& leaf : leaves_) settle(*leaf, arrivals_[leaf.get()]);
  }

  static thread_local Pass* current;

 private:
  using Pending = Node::Arrived;

  // Runs the graph that replaces the node in this pass, at the position of the
  // nodes that were not kept, so gradients are summed in the same order. The
  // complete gradient of an output is known only inside that graph, so it is
  // retained there.
  void unfold(Node& node, Pending& pending,
              std::vector<std::pair<int, Retained>> retained) {
    const std::vector<Var> outputs = node.unfold();
    std::vector<Edge> edges;
    for (const Var& output : outputs) edges.push_back(edge_of(output));
    for (auto& [output, to] : retained) {
      retain(outputs[static_cast<std::size_t>(output)], std::move(to));
    }
    for (std::size_t i = 0; i < edges.size(); ++i) {
      send(edges[i], std::move(pending[i]));
    }
  }

  struct Arrival {
    int awaited = 0;  // edges that have not sent yet
    bool settled = false;
    Var::Impl sum;  // its gradient is the buffer of this pass
  };

  void arrive(Var::Impl& leaf, Tensor gradient) {
    Arrival& at = arrivals_[&leaf];
    EA_CHECK_AS(
        InputError, !at.settled, "backward",
        "a recomputed step used other parameters than in its first run; "
        "both runs must do the same: correct the step, or turn "
        "gradient checkpointing off");
    if (gradient.defined()) {
      // An op may pass one tensor to two inputs; a leaf's gradient must not be
      // shared, since the caller may change it in place.
      if (gradient.storage().use_count() > 1) gradient = clone(gradient);
      add_dense(at.sum, std::move(gradient));
    }
    if (--at.awaited == 0) settle(leaf, at);
  }

  void settle(Var::Impl& leaf, Arrival& at) {
    if (at.settled) return;
    at.settled = true;
    add_to_leaf(leaf, at.sum);
    at.sum = {};
    if (complete_) complete_(leaf);
  }

  const Complete& complete_;
  std::vector<std::shared_ptr<Var::Impl>> leaves_;
  std::unordered_map<Var::Impl*, Arrival> arrivals_;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>,
                      Younger>
      queue_;
  std::unordered_map<Node*, Pending> pending_;
};

thread_local Pass* Pass::current = nullptr;

}  // namespace

void accumulate_rows(Var::Impl& leaf, RowGradient rows) {
  if (Pass::current != nullptr) {
    Pass::current->add_rows_of(leaf, std::move(rows));
  } else {
    const std::lock_guard lock(gradients_mutex());
    add_sparse(leaf, std::move(rows));
  }
}

void retain_gradient(const Var& x, const Var& y,
                     std::function<Tensor(const Tensor&)> form) {
  if (!x.requires_grad() || x.is_leaf() || y.impl()->retains_grad) return;
  y.impl()->retains_grad = true;
  retain(x, {y.impl(), std::move(form)});
}

void deliver(const Retained& retained, const Tensor& gradient) {
  const std::shared_ptr<Var::Impl> to = retained.to.lock();
  if (to && gradient.defined()) add_to(to->grad, retained.form(gradient));
}

std::int64_t kept_bytes(const Var& root) {
  const Edge start = edge_of(root);
  std::unordered_set<const void*> seen;  // nodes, and storages
  for (const auto& leaf : leaves_behind({start})) {
    seen.insert(leaf->data.storage().get());
  }
  std::int64_t bytes = 0;
  std::vector<const Node*> todo{start.node.get()};
  while (!todo.empty()) {
    const Node* node = todo.back();
    todo.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (const Tensor& t : node->all_saved()) {
      if (!t.defined() || !seen.insert(t.storage().get()).second) continue;
      bytes += static_cast<std::int64_t>(t.storage()->bytes());
    }
    for (const Edge& edge : node->edges()) todo.push_back(edge.node.get());
  }
  return bytes;
}

void accumulate(const Tensor& x, const Tensor& y) {
  kernels::run<Axpby>({1.0, y, 1.0, x, y});
}

void backward(const Var& root, const Tensor& gradient,
              const Complete& complete) {
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
              "gradient is on {}, the tensor on {}; use .to(device)",
              seed.device(), root.device());
  const NoGrad no_grad;
  const Edge start = edge_of(root);
  Pass pass(start, complete);
  pass.send(start, seed);
  pass.run();
}

}  // namespace ea
