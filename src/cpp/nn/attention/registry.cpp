// The list of evolve kinds.
#include "nn/attention/registry.h"

#include "runtime/check.h"

namespace ea {

namespace {

std::vector<EvolveKind>& mutable_kinds() {
  static std::vector<EvolveKind> kinds;
  return kinds;
}

}  // namespace

RegisterEvolve::RegisterEvolve(EvolveKind kind) {
  for (const EvolveKind& known : mutable_kinds()) {
    EA_CHECK_AS(ConfigError, known.name != kind.name, "attention",
                "two evolve kinds are called '{}'", kind.name);
  }
  mutable_kinds().push_back(std::move(kind));
}

const std::vector<EvolveKind>& evolve_kinds() { return mutable_kinds(); }

std::unique_ptr<Evolve> make_evolve(const Options& options,
                                    const EvolveSite& site) {
  const std::string name = options.text("kind");
  std::string known;
  for (const EvolveKind& kind : evolve_kinds()) {
    if (kind.name == name) {
      return kind.make(
          validate_options("attention." + name, options, kind.options), site);
    }
    known += (known.empty() ? "" : ", ") + kind.name;
  }
  fail<ConfigError>("attention", "unknown kind '{}'; the kinds are: {}", name,
                    known);
}

}  // namespace ea
