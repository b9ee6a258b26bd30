// Runs a function twice. The first run records a graph and drops it, so that
// both runs use the same kernels and it is known which outputs have gradients.
#include "autograd/recompute.h"

#include <algorithm>

#include "autograd/node.h"
#include "runtime/check.h"
#include "runtime/random.h"

namespace ea {

namespace {

thread_local bool second_run = false;

// Marks this thread's second run while it exists; may be nested.
class SecondRun {
 public:
  SecondRun() : outer_(second_run) { second_run = true; }
  ~SecondRun() { second_run = outer_; }
  SecondRun(const SecondRun&) = delete;
  SecondRun& operator=(const SecondRun&) = delete;

 private:
  bool outer_;
};

// Results of the first f(inputs), to compare with the second.
struct FirstRun {
  const char* name;
  std::vector<RandomState> streams;
  std::vector<Shape> shapes;  // of the outputs; empty if undefined
};

Shape shape_of(const Var& output) {
  return output.defined() ? output.shape() : Shape();
}

std::vector<Var> run_again(const Recomputed& f, const std::vector<Var>& inputs,
                           const FirstRun& first) {
  ReplayStreams replay(first.streams);
  const SecondRun second;
  std::vector<Var> outputs = f(inputs);
  bool same = replay.finished() && outputs.size() == first.shapes.size();
  for (std::size_t i = 0; same && i < outputs.size(); ++i) {
    same = shape_of(outputs[i]) == first.shapes[i];
  }
  EA_CHECK_AS(InputError, same, first.name,
              "a recomputed step drew fewer random streams or returned other "
              "shapes than in its first run; both runs must do the same: "
              "correct the step, or turn gradient checkpointing off");
  return outputs;
}

}  // namespace

bool recomputing() { return second_run; }

std::vector<Var> recompute(const char* name, Recomputed f,
                           const std::vector<Var>& inputs) {
  if (!grad_enabled()) return f(inputs);
  FirstRun first{name, {}, {}};
  const std::uint64_t since = next_node_order();
  std::vector<Var> outputs;
  {
    const NoteStreams note(first.streams);
    outputs = f(inputs);
  }
  EA_CHECK(outputs.size() <= Node::kMaxOutputs, name,
           "{} outputs, expected at most {}", outputs.size(),
           static_cast<int>(Node::kMaxOutputs));
  const auto has_gradient = [](const Var& v) { return v.requires_grad(); };
  if (std::none_of(outputs.begin(), outputs.end(), has_gradient)) {
    return outputs;
  }
  std::vector<Edge> edges;
  std::vector<Tensor> saved;
  for (const Var& input : inputs) {
    edges.push_back(edge_of(input));
    saved.push_back(input.defined() ? input.data() : Tensor());
  }
  std::vector<Edge> inside;
  for (const Var& v : outputs) {
    first.shapes.push_back(shape_of(v));
    if (v.defined()) inside.push_back(edge_of(v));
  }
  auto inner = leaves_behind(inside, since);
  const auto node = std::make_shared<Node>(
      name, std::move(edges), std::move(saved),
      Node::Unfold([f = std::move(f),
                    first = std::move(first)](const std::vector<Var>& again) {
        return run_again(f, again, first);
      }),
      std::move(inner));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!has_gradient(outputs[i])) continue;
    outputs[i] = Var(outputs[i].data(), node);
    outputs[i].impl()->output = static_cast<int>(i);
  }
  return outputs;
}

}  // namespace ea
