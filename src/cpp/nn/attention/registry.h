// Slot kinds by name; every kind registers itself from its own file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/attention/slots.h"
#include "nn/options.h"
#include "runtime/check.h"

namespace ea {

// The layer for which a factory makes a slot.
struct SlotSite {
  int layer = 0;       // 0-based index in its chain
  int num_layers = 1;  // length of the chain
  std::int64_t heads = 1;
  std::int64_t head_key_width = 1;    // of queries and keys
  std::int64_t head_value_width = 1;  // of values
  DType dtype = DType::f32;
  StackPlace place = {};

  StackPlace in_stack() const {
    return place.count > 0 ? place : StackPlace{layer, num_layers};
  }
};

// Returns this layer's value of an option with `per_layer`. Throws ConfigError
// unless there is one number for all layers, or one for each.
double of_layer(const Options& options, const char* key, const SlotSite& site);

template <typename Slot>
struct SlotMaker {
  std::function<std::unique_ptr<Slot>(const SlotSite&)> make = {};
  Options options = {};  // of kinds written in C++
  bool of_stack = false;

  explicit operator bool() const { return make != nullptr; }
  std::unique_ptr<Slot> operator()(const SlotSite& site) const {
    return make(site);
  }
};

template <typename Slot>
struct SlotKind {
  std::string name;
  std::string paper;
  std::vector<OptionSpec> options;
  std::function<std::unique_ptr<Slot>(const Options&, const SlotSite&)> make;
  // Whether layers share parameters of the first one: then it must have the
  // same kind with the same options.
  bool of_stack = false;
};

// The slot's name in messages and in specs, such as "evolve".
template <typename Slot>
constexpr const char* slot_name() {
  return Slot::kSlot;
}

namespace detail {
template <typename Slot>
std::vector<SlotKind<Slot>>& mutable_kinds() {
  static std::vector<SlotKind<Slot>> kinds;
  return kinds;
}
}  // namespace detail

template <typename Slot>
const std::vector<SlotKind<Slot>>& slot_kinds() {
  return detail::mutable_kinds<Slot>();
}

// A static object of this type registers a kind; a second kind of the same name
// makes the import fail with ConfigError.
template <typename Slot>
struct Register {
  explicit Register(SlotKind<Slot> kind) {
    for (const SlotKind<Slot>& known : slot_kinds<Slot>()) {
      EA_CHECK_AS(ConfigError, known.name != kind.name, "attention",
                  "two {} kinds are called '{}'", slot_name<Slot>(), kind.name);
    }
    detail::mutable_kinds<Slot>().push_back(std::move(kind));
  }
};

// Checks options["kind"] and the other options once; the result makes the slot
// of a layer. Throws ConfigError.
template <typename Slot>
SlotMaker<Slot> slot_maker(const Options& options) {
  const std::string name = options.text("kind");
  std::string known;
  for (const SlotKind<Slot>& kind : slot_kinds<Slot>()) {
    if (kind.name == name) {
      const Options checked =
          validate_options("attention." + name, options, kind.options);
      return {[&kind, checked](const SlotSite& site) {
                return kind.make(checked, site);
              },
              checked, kind.of_stack};
    }
    known += (known.empty() ? "" : ", ") + kind.name;
  }
  fail<ConfigError>("attention", "unknown {} kind '{}'; the kinds are: {}",
                    slot_name<Slot>(), name, known);
}

}  // namespace ea
