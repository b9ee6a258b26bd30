// Convolutional self-attention (Yang et al., NAACL 2019): a query sees the keys
// in a window around its own position, in its own and in neighbouring heads,
// under one softmax.
#include "nn/attention/registry.h"
#include "nn/attention/scope/packed_scope.h"

namespace ea {

namespace {

class WindowScope final : public PackedScope {
 public:
  explicit WindowScope(const Window& window) : window_(window) {}

  PackingPtr maps(const PackingPtr& tokens) const override {
    return Packing::windowed(tokens, window_);
  }
  // Neighbouring rows hold different keys in the same column.
  bool grid() const override { return false; }
  bool sums_pairs() const override { return false; }
  void check_heads(std::int64_t heads) const override {
    EA_CHECK_AS(ConfigError, window_.heads <= heads, "attention.window",
                "heads = {} are more than the {} of the layer; expected an odd "
                "number up to that",
                window_.heads, heads);
  }

  Var pair_sum(const Var&, const Var&, const AttentionContext&) const override {
    fail<ConfigError>("attention.window",
                      "the scope has no sums of queries and keys; expected "
                      "their products: use the score dot or multiplicative");
  }

 private:
  Window window_;
};

const Register<Scope> kWindow({
    "window",
    "Yang et al., NAACL 2019",
    {
        {.name = "size",
         .type = "int",
         .fallback = 11,
         .low = 1,
         .high = (1 << 24) - 1,
         .odd = true,
         .doc = "the number of positions that a query sees, odd"},
        {.name = "heads",
         .type = "int",
         .fallback = 1,
         .low = 1,
         .high = 1023,
         .odd = true,
         .doc = "the number of heads whose keys and values a head sees, odd; "
                "1: its own"},
        {.name = "head_border",
         .type = "str",
         .fallback = std::string("clip"),
         .choices = {"clip", "wrap", "clamp", "author"},
         .doc = "the neighbours of the first and the last head: clip leaves "
                "missing ones out, wrap takes those of the other end, clamp "
                "repeats the last head, author wraps keys and clamps values"},
    },
    [](const Options& options, const SlotSite&) {
      return std::make_unique<WindowScope>(
          Window{options.integer("size"), options.integer("heads"),
                 parse_head_border(options.text("head_border"))});
    },
});

}  // namespace

}  // namespace ea
