// The inputs of a model: arrays by name, as its architecture declares them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "nn/blocks/chain.h"
#include "ops/packing.h"

namespace ea {

// The conversion of Python objects to the array of an input.
enum class InputKind : std::uint8_t {
  integers,  // int64; others are refused
  values,    // floating; integers become float32
  pixels,    // as `values`, for images
  labels,    // floating values, or classes as int64
  flags,     // unchanged, read as booleans
  edges,     // the edges of a graph
};

struct InputSpec {
  std::string name;
  InputKind kind;
  bool by_position;  // positional in Python's call; else keyword only
  std::string doc;
};

// The caller's arrays, on any device.
struct Inputs {
  std::map<std::string, Var> arrays;       // without omitted inputs
  std::map<std::string, EdgesPtr> graphs;  // inputs of the kind `edges`
  double label_smoothing = 0.0;
  Wanted wanted;
  Wanted decoder_wanted;  // for models with a second stack

  // These return undefined or null if the input was omitted.
  Var var(const std::string& name) const {
    const auto it = arrays.find(name);
    return it == arrays.end() ? Var() : it->second;
  }
  EdgesPtr graph(const std::string& name) const {
    const auto it = graphs.find(name);
    return it == graphs.end() ? nullptr : it->second;
  }
  Tensor array(const std::string& name) const {
    const Var found = var(name);
    return found.defined() ? found.data() : Tensor();
  }
};

}  // namespace ea
