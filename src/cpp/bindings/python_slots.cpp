// Slots of the attention layer that are written in Python.
#include "bindings/attention.h"
#include "bindings/numpy.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

std::string type_name(const py::handle& object) {
  return py::str(py::type::handle_of(object).attr("__name__"));
}

// A slot written in Python, with its parameters; `Slot` is the core's slot
// class.
template <typename Slot>
class PythonSlot : public Slot {
 public:
  PythonSlot(py::object slot, const SlotSite& site)
      : slot_(std::move(slot)), heads_(site.heads) {
    const py::object initial = slot_.attr("parameters")(site.layer, site.heads);
    EA_CHECK_AS(ConfigError, py::isinstance<py::dict>(initial),
                slot_name<Slot>(),
                "{}.parameters() returned a {}, expected a dict of names and "
                "initial arrays",
                type_name(slot_), type_name(initial));
    for (const auto& item : py::dict(initial)) {
      EA_CHECK_AS(ConfigError, py::isinstance<py::str>(item.first),
                  slot_name<Slot>(),
                  "{}.parameters() has a name of type {}, expected strings",
                  type_name(slot_), type_name(item.first));
      const auto name = item.first.cast<std::string>();
      const Tensor values = clone(from_python(item.second));
      names_.push_back(name);
      parameters_.push_back(
          this->add_parameter(slot_name<Slot>() + ("." + name), values.shape(),
                              site.dtype, {Init::Kind::given, 0.0, values}));
    }
  }
  ~PythonSlot() override {
    const HeldGil gil;
    slot_ = py::object();
  }

 protected:
  // Returns the StepContext of a method: layer, maps, parameters and mode.
  py::object where(const AttentionContext& context) const {
    py::dict parameters;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      parameters[py::str(names_[i])] = parameters_[i];
    }
    return py::module_::import("evolving_attention.attention.base")
        .attr("StepContext")(context.layer, context.num_layers, heads_,
                             std::const_pointer_cast<Packing>(context.maps),
                             parameters, this->training(),
                             std::const_pointer_cast<Packing>(context.tokens));
  }

  Var tensor(const py::object& result, const char* method) const {
    EA_CHECK_AS(InputError, py::isinstance<Var>(result), slot_name<Slot>(),
                "{}.{} returned a {}, expected a Tensor{}", type_name(slot_),
                method, type_name(result),
                std::string(method) == "step"
                    ? ", or a pair of them: maps for the softmax and maps to "
                      "carry"
                    : "");
    return result.cast<Var>();
  }

  // Checks that a result has the shape and dtype of `like`.
  Var same(const py::object& result, const char* method, const Var& like,
           const char* what) const {
    const Var maps = tensor(result, method);
    EA_CHECK(maps.shape() == like.shape() && maps.dtype() == like.dtype(),
             slot_name<Slot>(), "{}.{} returned {} {}, expected {} {} {}",
             type_name(slot_), method, maps.dtype(), maps.shape(), what,
             like.dtype(), like.shape());
    return maps;
  }

  py::object slot_;

 private:
  std::int64_t heads_;
  std::vector<std::string> names_;
  std::vector<Var> parameters_;
};

py::object maybe(const Var& x) {
  return x.defined() ? py::cast(x) : py::object(py::none());
}

// Returns what a slot may overwrite: += writes into a leaf without gradient,
// which may be in the model's output or be read by the next layer.
Var writable(const Var& x) {
  const bool in_place = x.defined() && x.is_leaf() && !x.requires_grad();
  return in_place ? Var(clone(x.data())) : x;
}

// Evolve slot: step(scores, previous, context) -> logits, or (logits, carry).
class PythonEvolve final : public PythonSlot<Evolve> {
 public:
  using PythonSlot::PythonSlot;

  Evolved step(const Var& scores, const Var& previous,
               const AttentionContext& context) override {
    const HeldGil gil;
    const py::object result = slot_.attr("step")(
        writable(scores), maybe(writable(previous)), where(context));
    const char* what = "the scores'";
    if (py::isinstance<py::tuple>(result) && py::len(result) == 2) {
      const py::tuple pair = result;
      return {same(pair[0], "step", scores, what),
              same(pair[1], "step", scores, what)};
    }
    const Var logits = same(result, "step", scores, what);
    return {logits, logits};
  }
};

// Scope slot: maps(tokens) -> Packing or None; dot, pair_sum, normalise, mix.
class PythonScope final : public PythonSlot<Scope> {
 public:
  using PythonSlot::PythonSlot;

  PackingPtr maps(const PackingPtr& tokens) const override {
    const HeldGil gil;
    const py::object maps =
        slot_.attr("maps")(std::const_pointer_cast<Packing>(tokens));
    if (maps.is_none()) return tokens;
    EA_CHECK_AS(InputError, py::isinstance<Packing>(maps), "scope",
                "{}.maps returned a {}, expected a Packing, or None where maps "
                "be between all queries and keys",
                type_name(slot_), type_name(maps));
    return maps.cast<std::shared_ptr<Packing>>();
  }
  bool grid() const override {
    const HeldGil gil;
    return slot_.attr("grid").cast<bool>();
  }
  bool causal() const override {
    const HeldGil gil;
    return slot_.attr("causal").cast<bool>();
  }
  Var dot(const Var& q, const Var& k, double scale,
          const AttentionContext& context) const override {
    const HeldGil gil;
    return flat(
        slot_.attr("dot")(writable(q), writable(k), scale, where(context)),
        "dot", 1, context);
  }
  Var pair_sum(const Var& u, const Var& v,
               const AttentionContext& context) const override {
    const HeldGil gil;
    return flat(
        slot_.attr("pair_sum")(writable(u), writable(v), where(context)),
        "pair_sum", u.dim(1) / context.maps->heads(), context);
  }
  Var normalise(const Var& logits, double scale,
                const AttentionContext& context) const override {
    const HeldGil gil;
    return same(
        slot_.attr("normalise")(writable(logits), scale, where(context)),
        "normalise", logits, "the logits'");
  }
  Var mix(const Var& probabilities, const Var& v,
          const AttentionContext& context) const override {
    const HeldGil gil;
    return tensor(
        slot_.attr("mix")(writable(probabilities), writable(v), where(context)),
        "mix");
  }

 private:
  // Checks and flattens maps with `each` values per cell.
  Var flat(const py::object& result, const char* method, std::int64_t each,
           const AttentionContext& context) const {
    const Var maps = tensor(result, method);
    const std::int64_t expected = each * context.maps->map_elements();
    EA_CHECK(maps.numel() == expected, "scope",
             "{}.{} returned {} values, expected {}: those of the layout that "
             "maps() gives",
             type_name(slot_), method, maps.numel(), expected);
    return maps;
  }
};

// Score slot: scores(q, k, scope, context) -> flat maps.
class PythonScore final : public PythonSlot<Score> {
 public:
  using PythonSlot::PythonSlot;

  bool pairwise() const override { return false; }  // unknown

  Var scores(const Var& q, const Var& k, const Scope& scope,
             const AttentionContext& context) const override {
    const HeldGil gil;
    // The functions may be kept; scope and context live as long as this call.
    struct Call {
      const Scope* scope;
      const AttentionContext* context;
    };
    const auto call = std::make_shared<Call>(&scope, &context);
    const auto present = [](const Call& one, const char* method) {
      EA_CHECK_AS(InputError, one.scope != nullptr, "score",
                  "{}() was called after scores() had returned; call it inside",
                  method);
    };
    const py::cpp_function dot(
        [call, present](const Var& a, const Var& b, double factor) {
          present(*call, "dot");
          return call->scope->dot(a, b, factor, *call->context);
        });
    const py::cpp_function pair_sum(
        [call, present](const Var& u, const Var& v) {
          present(*call, "pair_sum");
          return call->scope->pair_sum(u, v, *call->context);
        });
    const struct End {
      Call& call;
      ~End() { call.scope = nullptr; }
    } end{*call};
    const Var maps = tensor(slot_.attr("scores")(writable(q), writable(k), dot,
                                                 pair_sum, where(context)),
                            "scores");
    EA_CHECK(maps.numel() == context.maps->map_elements(), "score",
             "{}.scores returned {} values, expected {}: one for each cell of "
             "the maps",
             type_name(slot_), maps.numel(), context.maps->map_elements());
    return maps;
  }
};

// Bias slot: map(q, context) -> flat maps.
class PythonBias final : public PythonSlot<Bias> {
 public:
  using PythonSlot::PythonSlot;

  Var map(const Var& q, const AttentionContext& context) const override {
    const HeldGil gil;
    const Var maps =
        tensor(slot_.attr("map")(writable(q), where(context)), "map");
    EA_CHECK(maps.numel() == context.maps->map_elements(), "bias",
             "{}.map returned {} values, expected {}: one for each cell of the "
             "maps",
             type_name(slot_), maps.numel(), context.maps->map_elements());
    return reshape(maps, {maps.numel()});
  }
  bool needs_grid() const override { return false; }
};

template <typename Made, typename Slot>
SlotMaker<Slot> maker(const py::object& slot) {
  return {[slot](const SlotSite& site) -> std::unique_ptr<Slot> {
    return std::make_unique<Made>(slot, site);
  }};
}

}  // namespace

SlotMaker<Score> score_from_python(const py::object& slot) {
  return maker<PythonScore, Score>(slot);
}
SlotMaker<Scope> scope_from_python(const py::object& slot) {
  return maker<PythonScope, Scope>(slot);
}
SlotMaker<Bias> bias_from_python(const py::object& slot) {
  return maker<PythonBias, Bias>(slot);
}
SlotMaker<Evolve> evolve_from_python(const py::object& slot) {
  return maker<PythonEvolve, Evolve>(slot);
}

}  // namespace ea
