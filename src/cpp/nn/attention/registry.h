// Evolve kinds by name: each registers itself from its own file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/attention/slots.h"
#include "nn/options.h"

namespace ea {

// What a kind's factory is told about the layer it is made for.
struct EvolveSite {
  int layer = 0;
  int num_layers = 1;
  std::int64_t heads = 1;
  DType dtype = DType::f32;
};

using EvolveFactory =
    std::function<std::unique_ptr<Evolve>(const Options&, const EvolveSite&)>;

struct EvolveKind {
  std::string name;
  std::string paper;
  std::vector<OptionSpec> options;
  EvolveFactory make;
};

// A static object of this type adds a kind; a second kind of the same name
// stops the import with ConfigError.
struct RegisterEvolve {
  explicit RegisterEvolve(EvolveKind kind);
};

const std::vector<EvolveKind>& evolve_kinds();

// Checks options["kind"] and the rest, and makes the slot of one layer.
std::unique_ptr<Evolve> make_evolve(const Options& options,
                                    const EvolveSite& site);

}  // namespace ea
