// Graph attention networks (Velickovic et al., ICLR 2018), and evolving ones
// (Wang et al., TPAMI 2023, Sections 3.4 and 5.7).
#include "models/model.h"
#include "nn/blocks/graph_layer.h"
#include "nn/blocks/stack.h"
#include "ops/arithmetic.h"
#include "ops/losses.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"
#include "tensor/finite.h"

namespace ea {

namespace {

struct GatSizes {
  explicit GatSizes(const Options& o)
      : features(positive(o, "num_features")),
        hidden(positive(o, "hidden_size")),
        layers(positive(o, "num_hidden_layers")),
        heads(positive(o, "num_attention_heads")),
        output_heads(positive(o, "num_output_heads")),
        labels(o.integer("num_labels", 2)),
        dropout(rate(o, "hidden_dropout_prob", 0.6)),
        attention_dropout(rate(o, "attention_probs_dropout_prob", 0.6)) {
    EA_CHECK_AS(ConfigError, hidden % heads == 0, "config",
                "hidden_size = {} is not a multiple of num_attention_heads {}",
                hidden, heads);
  }
  std::int64_t features, hidden, layers, heads, output_heads, labels;
  double dropout, attention_dropout;
};

// An output layer averages its heads. If it has as many heads as the layers
// before, it continues their chain of maps; otherwise the chain restarts.
LayerMaker layer_maker(const GatSizes& s, bool classifies,
                       const ModelConfig& model) {
  return [s, classifies, dtype = model.dtype, specs = model.attention](int i) {
    const bool last = classifies && i + 1 == s.layers;
    GraphLayerConfig c;
    AttentionConfig& a = c.attention;
    a.heads = last ? s.output_heads : s.heads;
    a.head_key_width = last ? s.labels : s.hidden / s.heads;
    a.head_value_width = a.head_key_width;
    a.dropout = s.attention_dropout;
    a.projects = false;
    a.dtype = dtype;
    a.place.count = static_cast<int>(s.layers);
    const AttentionSpec& spec = a.enter(specs, i);
    if (last && s.output_heads != s.heads) a.layer = 0;
    c.in_size = i == 0 ? s.features : s.hidden;
    c.dropout = s.dropout;
    c.averages = last;
    c.activates = !last;
    c.projected = i == 0;
    return std::make_shared<GraphLayer>(c, spec);
  };
}

void check_finite(const Tensor& features, bool sparse) {
  const Tensor x = to_device(contiguous(features), kCpu);
  const std::int64_t i = first_not_finite(x);
  if (i < 0) return;
  fail<InputError>("forward",
                   "features[{}] is {}: expected finite numbers; fill in what "
                   "is missing",
                   sparse ? format("stored value {}", i)
                          : format("{}, {}", i / x.dim(1), i % x.dim(1)),
                   cast(x, DType::f64).data<double>()[i]);
}

// Node features: dense, or the values and cells of a sparse matrix.
struct NodeFeatures {
  Var values;
  EdgesPtr cells;
  EdgesPtr graph;
};

NodeFeatures features_of(const Inputs& inputs, std::int64_t width,
                         DType dtype) {
  NodeFeatures in{inputs.var("features"), inputs.graph("feature_cells"),
                  inputs.graph("graph")};
  EA_CHECK_AS(InputError, in.values.defined(), "forward",
              "features is None; expected an array (nodes, features)");
  EA_CHECK_AS(InputError, in.graph != nullptr, "forward",
              "graph is None; expected the edges between the nodes");
  const Var& x = in.values;
  const std::int64_t nodes = in.graph->queries();
  if (in.cells) {
    EA_CHECK(x.rank() == 1 && x.dim(0) == in.cells->count(), "forward",
             "features has shape {}, expected ({},): one value for each of "
             "feature_cells",
             x.shape(), in.cells->count());
  } else {
    EA_CHECK(x.rank() == 2, "forward",
             "features has shape {}, expected (nodes, features)", x.shape());
  }
  const std::int64_t rows = in.cells ? in.cells->queries() : x.dim(0);
  const std::int64_t columns = in.cells ? in.cells->num_keys() : x.dim(1);
  EA_CHECK(columns == width, "forward",
           "features has {} columns, this model takes {} (num_features)",
           columns, width);
  EA_CHECK(rows == nodes && in.graph->num_keys() == nodes, "forward",
           "features has {} rows for a graph with {} nodes; expected one row "
           "for each node",
           rows, nodes);
  if (x.dtype() != dtype) in.values = cast(x, dtype);
  check_finite(in.values.data(), in.cells != nullptr);
  return in;
}

class Gat final : public Model {
 public:
  Gat(const ModelConfig& config, bool classifies)
      : sizes_(config.options),
        classifies_(classifies),
        dtype_(config.dtype),
        stack_(static_cast<int>(sizes_.layers),
               layer_maker(sizes_, classifies, config), "convs") {
    EA_CHECK_AS(ConfigError, !classifies || sizes_.labels >= 2, "config",
                "num_labels = {}: classification expected 2 or more",
                sizes_.labels);
    add_child("", stack_);
  }

  ModelOutput forward(const Inputs& inputs) override {
    NodeFeatures in = features_of(inputs, sizes_.features, dtype_);
    const auto& first = static_cast<const GraphLayer&>(*stack_.layers()[0]);
    in.values = to_device(in.values, first.device());
    const PackingPtr nodes = Packing::with_edges(
        std::make_shared<const Packing>(
            sizes_.heads, std::vector<std::int64_t>{0, in.graph->queries()}),
        in.graph);
    const StackOutput stack = stack_.forward(first.project(in.values, in.cells),
                                             nodes, inputs.wanted);
    return output(stack, inputs);
  }

 private:
  ModelOutput output(const StackOutput& stack, const Inputs& inputs) const {
    ModelOutput out;
    out.hidden_states = shown(stack.hidden_states, [](const Var& x) {
      return reshape(x, x.shape());
    });
    put_maps(out, stack.maps, [](const Var& x, const PackingPtr& layout) {
      return reshape(x, {layout->edges()->count(), layout->heads()});
    });
    const Tensor labels = inputs.array("labels");
    if (!classifies_) {
      EA_CHECK_AS(InputError, !labels.defined(), "forward",
                  "labels is given, expected none: a model without a task has "
                  "no loss; leave it out");
      out.last_hidden_state = stack.last;
      return out;
    }
    out.logits = stack.last;
    if (labels.defined()) {
      EA_CHECK_AS(DTypeError, labels.dtype() == DType::i64, "forward",
                  "labels are {}, expected the integers 0 to {} of {} classes, "
                  "and -100 for nodes without one",
                  labels.dtype(), sizes_.labels - 1, sizes_.labels);
      EA_CHECK(labels.shape() == Shape({out.logits.dim(0)}), "forward",
               "labels have shape {}, expected ({},): one for each node",
               labels.shape(), out.logits.dim(0));
      out.loss = cross_entropy(out.logits, labels, inputs.label_smoothing);
    }
    return out;
  }

  GatSizes sizes_;
  bool classifies_;
  DType dtype_;
  Stack stack_;
};

std::unique_ptr<Model> make_gat(const ModelConfig& config) {
  const std::string head = config.options.text("head", "base");
  EA_CHECK_AS(ConfigError, head == "base" || head == "node_classification",
              "gat", "unknown head '{}'; expected base or node_classification",
              head);
  return std::make_unique<Gat>(config, head == "node_classification");
}

const std::vector<InputSpec>& inputs_of_gat() {
  using enum InputKind;
  static const std::vector<InputSpec> specs{
      {"features", values, true,
       "numbers [nodes, features], or a sparse matrix of SciPy."},
      {"graph", edges, true,
       "the edges between the nodes: an ea.Graph, or any argument of "
       "ea.Graph.of()."},
      {"labels", labels, true,
       "[nodes] classes as integers; -100 for nodes without a label."},
      {"feature_cells", edges, false,
       "for features [count], the values of a sparse matrix: F.Edges with the "
       "column (source) and node of each value."},
  };
  return specs;
}

const RegisterModel kGat("gat", {inputs_of_gat(), make_gat});

}  // namespace

}  // namespace ea
