// The module of differentiable functions for Python, and the packing they use.
#include <pybind11/stl.h>

#include "bindings/arguments.h"
#include "bindings/numpy.h"
#include "bindings/ops.h"
#include "ops/per_head.h"
#include "ops/unpack_maps.h"
#include "runtime/check.h"

namespace ea {

namespace {

Tensor integers(const py::object& object, const char* name) {
  return optional_integers(object, name);
}

std::vector<std::int64_t> offsets_of(const py::object& object) {
  EA_CHECK_AS(InputError, !object.is_none(), "packing",
              "offsets are None; expected [sequences + 1] integers from 0 on");
  const Tensor t = integers(object, "offsets");
  const auto* values = t.data<std::int64_t>();
  return {values, values + t.numel()};
}

std::shared_ptr<Packing> make_packing(
    Whole<"Packing: num_heads"> heads, const py::object& q, const py::object& k,
    bool causal, const OptionalVar& mask, const py::object& window,
    Whole<"Packing: window_heads"> window_heads, const std::string& head_border,
    const py::object& edges) {
  PackingPtr made = std::make_shared<const Packing>(
      heads.value, offsets_of(q), offsets_of(k.is_none() ? q : k));
  if (causal) made = Packing::causal(made);
  if (mask) made = Packing::masked(made, mask->data());
  if (!window.is_none()) {
    made = Packing::windowed(
        made, {whole_number(window, "Packing: window"), window_heads.value,
               parse_head_border(head_border)});
  }
  if (!edges.is_none()) {
    EA_CHECK_AS(DTypeError, py::isinstance<Edges>(edges), "packing",
                "edges must be functional.Edges; got {}", described(edges));
    made = Packing::along_edges(
        Packing::with_edges(made, edges.cast<std::shared_ptr<Edges>>()));
  }
  return std::const_pointer_cast<Packing>(made);
}

constexpr const char* kPacking =
    R"(Layout of a packed batch: its sequences and their attention maps.

    row t of sequence b = row offsets[b] + t of the tokens
    flat maps = for b, for h: the map [queries of b, keys of b] in row-major order

Args:
    num_heads: attention heads, 1 or more.
    offsets: [sequences + 1] integers from 0 on, where each sequence of queries
        begins, and the total.
    key_offsets: the same for keys; None: those of the queries.
    causal: row i of a map sees keys up to i + keys - queries alone.
    key_mask: bool or uint8 [total keys], 0 for a key that no row sees; None: all are
        seen.
    window: odd; with width = min(window, 2 n - 1), each query has width columns per
        neighbouring head instead of n keys. Column a * width + o of query i and head
        h holds key i + o - width // 2 of head h + a - window_heads // 2. None: all.
    window_heads: odd, at most num_heads.
    head_border: which heads stand for missing ones: 'clip' (none), 'wrap', 'clamp',
        or 'author' (keys wrap, values clamp).
    edges: a graph between the tokens: maps are [edges, num_heads] row-major, a row
        for each edge, and nothing else. None: maps are [queries, keys].

Raises:
    ShapeError: offsets fall or do not begin with 0, queries and keys differ in
        sequences, there is no head, the mask does not fit, or a window has other
        keys than queries.
    DTypeError: offsets are not integers, or edges are not F.Edges.
    ConfigError: num_heads is not an integer, or a window is even, has more heads
        than there are, or a mask or causal limit beside it, or edges have a window,
        a mask or a causal limit beside them.

Example:
    >>> from evolving_attention import functional as F
    >>> packing = F.Packing(num_heads=2, offsets=[0, 3, 5])
    >>> packing.num_sequences, packing.map_elements
    (2, 26))";

constexpr const char* kPerHead =
    R"(Spreads one number per head over the cells of that head's maps.

    maps[b, h, i, j] = x[h]

A coefficient for each head in a step of your own: packing.per_head(x) * scores. Its
gradient is the sum over the cells of each head.

Args:
    x: [heads].

Returns:
    Flat maps of map_elements elements in the type of x.

Raises:
    ShapeError: x has not one number for each head.

Example:
    >>> from evolving_attention import functional as F
    >>> packing = F.Packing(2, [0, 1, 3])
    >>> packing.per_head([1.0, 2.0]).numpy().tolist()
    [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0])";

constexpr const char* kPad =
    R"(Unpacks flat maps to one dense array, with zeros outside each sequence.

    dense[b, h, i, j] = maps[b, h, i, j]

Args:
    maps: flat maps of map_elements elements.

Returns:
    [sequences, heads, longest queries, longest keys] in the type of the maps; maps of
    windows as unpack_maps() lays them out.

Raises:
    ShapeError: the maps have another number of elements.

Example:
    >>> from evolving_attention import functional as F
    >>> packing = F.Packing(1, [0, 2, 3])
    >>> packing.pad([1.0, 2.0, 3.0, 4.0, 5.0]).numpy().tolist()
    [[[[1.0, 2.0], [3.0, 4.0]]], [[[5.0, 0.0], [0.0, 0.0]]]])";

constexpr const char* kEdges =
    R"(Edge list sorted by target node (CSC).

    edge e, starts[i] <= e < starts[i + 1], goes from node sources[e] to node i

Both arrays are kept, and the edges sorted by source node, for gradients.

Args:
    starts: [nodes + 1] integers from 0 to the number of edges.
    sources: [edges] integers, the node that each edge comes from. Several edges
        between two nodes count one by one.
    num_sources: how many nodes edges may come from; None: as many as they enter.

Raises:
    ShapeError: starts fall, or do not begin with 0 and end with the number of edges.
    InputError: an edge comes from a node that does not exist; names the edge.
    DTypeError: an array has no integers.

Example:
    >>> from evolving_attention import functional as F
    >>> edges = F.Edges(starts=[0, 2, 3], sources=[0, 1, 0])
    >>> edges.num_edges, F.Packing(4, [0, 2], edges=edges).map_elements
    (3, 12))";

std::shared_ptr<Edges> make_edges(const py::object& starts,
                                  const py::object& sources,
                                  const py::object& num_sources) {
  const Tensor first = integers(starts, "starts");
  const Tensor from = integers(sources, "sources");
  EA_CHECK_AS(InputError, first.defined() && from.defined(), "edges",
              "starts or sources is None; expected arrays of integers");
  return std::make_shared<Edges>(
      first, from,
      num_sources.is_none() ? first.numel() - 1
                            : whole_number(num_sources, "Edges: num_sources"));
}

void bind_edges(py::module_& m) {
  py::class_<Edges, std::shared_ptr<Edges>>(m, "Edges", kEdges)
      .def(py::init(&make_edges), py::arg("starts"), py::arg("sources"),
           py::arg("num_sources") = py::none())
      .def_property_readonly("num_nodes", &Edges::queries,
                             R"(Number of nodes that edges may enter.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Edges([0, 2, 3], [0, 1, 0]).num_nodes
    2)")
      .def_property_readonly("num_sources", &Edges::num_keys,
                             R"(Number of nodes that edges may come from.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Edges([0, 1], [2], num_sources=3).num_sources
    3)")
      .def_property_readonly("num_edges", &Edges::count,
                             R"(Number of edges.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Edges([0, 2, 3], [0, 1, 0]).num_edges
    3)")
      .def_property_readonly(
          "starts", [](const Edges& e) { return to_numpy(clone(e.starts())); },
          R"(Index of each node's first edge, and the total; a copy.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Edges([0, 2, 3], [0, 1, 0]).starts.tolist()
    [0, 2, 3])")
      .def_property_readonly(
          "sources", [](const Edges& e) { return to_numpy(clone(e.keys())); },
          R"(Source node of each edge; a copy.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Edges([0, 2, 3], [0, 1, 0]).sources.tolist()
    [0, 1, 0])");
}

using PackingClass = py::class_<Packing, std::shared_ptr<Packing>>;

// Binds the properties that limit the cells of maps.
void bind_limits(PackingClass& packing) {
  packing
      .def_property_readonly(
          "window",
          [](const Packing& p)
              -> std::optional<
                  std::tuple<std::int64_t, std::int64_t, std::string>> {
            if (!p.window()) return {};
            return std::tuple(p.window()->size, p.window()->heads,
                              std::string(name_of(p.window()->border)));
          },
          R"(Positions, heads and head border of the windows, or None.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Packing(4, [0, 9], window=5, window_heads=3).window
    (5, 3, 'clip'))")
      .def_property_readonly(
          "edges",
          [](const Packing& p) -> std::shared_ptr<Edges> {
            if (!p.is_along_edges()) return nullptr;
            return std::const_pointer_cast<Edges>(p.edges());
          },
          R"(Edges whose cells the maps have, or None.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Packing(4, [0, 9]).edges is None
    True)");
}

void bind_packing(py::module_& m) {
  PackingClass packing(m, "Packing", kPacking);
  packing
      .def(py::init(&make_packing), py::arg("num_heads"), py::arg("offsets"),
           py::arg("key_offsets") = py::none(), py::arg("causal") = false,
           py::arg("key_mask") = py::none(), py::arg("window") = py::none(),
           py::arg("window_heads") = 1, py::arg("head_border") = "clip",
           py::arg("edges") = py::none())
      .def_property_readonly("num_heads", &Packing::heads,
                             R"(Number of attention heads.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Packing(2, [0, 3]).num_heads
    2)")
      .def_property_readonly("num_sequences", &Packing::sequences,
                             R"(Number of sequences.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Packing(2, [0, 3, 5]).num_sequences
    2)")
      .def_property_readonly("causal", &Packing::is_causal,
                             R"(Whether rows see no later keys.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Packing(2, [0, 3], causal=True).causal
    True)")
      .def_property_readonly("map_elements", &Packing::map_elements,
                             R"(Number of cells of all maps of all heads.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Packing(2, [0, 3]).map_elements
    18)")
      .def_property_readonly(
          "offsets", [](const Packing& p) { return p.q_offsets(); },
          R"(First row of each sequence of queries, and the total.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Packing(2, [0, 3, 5]).offsets
    [0, 3, 5])")
      .def_property_readonly(
          "key_offsets", [](const Packing& p) { return p.k_offsets(); },
          R"(First row of each sequence of keys, and the total.

Example:
    >>> from evolving_attention import functional as F
    >>> F.Packing(2, [0, 3], key_offsets=[0, 4]).key_offsets
    [0, 4])")
      .def(
          "per_head",
          [](const PackingPtr& self, const Var& x) {
            return per_head(x, self);
          },
          py::arg("x"), Release(), kPerHead)
      .def(
          "pad",
          [](const PackingPtr& self, const Var& maps) {
            return unpack_maps(maps, self);
          },
          py::arg("maps"), Release(), kPad);
  bind_limits(packing);
}

}  // namespace

std::string doc_of(bool method, const std::string& head, const std::string& x,
                   const std::string& arguments, const std::string& rest,
                   const std::string& example) {
  std::string doc = head + "\n\nArgs:\n";
  if (method && arguments.empty()) doc = head + "\n";
  if (!method) doc += "    x: " + x + "\n";
  doc += arguments + "\nReturns:\n" + rest + "\nExample:\n";
  doc += method ? "    >>> from evolving_attention import Tensor\n"
                : "    >>> from evolving_attention import functional as F\n";
  return doc + example;
}

void bind_ops(py::module_& m) {
  bind_edges(m);
  bind_packing(m);
  py::module_ ops = m.def_submodule("ops", "Differentiable functions.");
  bind_array_ops(ops);
  bind_selection_ops(ops);
  bind_layer_ops(ops);
  bind_attention_ops(ops);
  bind_map_ops(ops);
  bind_fused_attention(ops);
  bind_sequence_ops(ops);
  bind_image_ops(ops);
  m.def("op_names", [ops]() -> py::typing::List<py::str> {
    py::list names;
    for (const auto& item : ops.attr("__dict__").cast<py::dict>()) {
      const auto name = item.first.cast<std::string>();
      if (name.rfind("__", 0) != 0) names.append(name);
    }
    return names;
  });
}

}  // namespace ea
