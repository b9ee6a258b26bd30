// Wiring of encoder and decoder.
#include "models/transformer.h"

#include <algorithm>

#include "ops/arithmetic.h"
#include "runtime/check.h"

namespace ea {

namespace {

Var scaled(const Var& x, double factor) {
  return factor == 1.0 ? x : scale(x, factor);
}

}  // namespace

Var OutputMatrix::logits(const Var& h) const {
  return linear(scaled(h, scale), weight);
}

const AttentionSpecs& specs_of(const ModelConfig& model, const char* name) {
  const auto it = model.more_attention.find(name);
  EA_CHECK_AS(ConfigError, it != model.more_attention.end(), "transformer",
              "'{}' is missing; expected the specs of that attention", name);
  return it->second;
}

TransformerSide::TransformerSide(const TransformerDesign& design,
                                 const TransformerSideDesign& side, DType dtype)
    : scale_(design.word_scale),
      dropout_(design.dropout),
      last_dropout_(design.dropout_last ? design.dropout : 0.0),
      stack_(side.layers, side.make_layer, design.names.layer) {
  if (design.sinusoids) positions_.emplace(design.width, dtype);
  add_child("embeddings.dropout", dropout_);
  add_child("", stack_);
  add_child("dropout", last_dropout_);
  if (!design.last_norm) return;
  norm_ = std::make_unique<Norm>(design.width, *design.last_norm, dtype);
  add_child(design.names.norm, *norm_);
}

StackOutput TransformerSide::forward(const Embedding& words,
                                     const PackedText& text,
                                     const char* ids_name, const Wanted& wanted,
                                     const Tokens& memory) {
  Var tokens = scaled(words(text.input_ids, ids_name), scale_);
  if (positions_) {
    tokens = add(tokens, (*positions_)(*text.packing, tokens.device()));
  }
  StackOutput out = stack_.forward(dropout_(tokens), text.packing, wanted, {},
                                   norm_.get(), memory);
  out.last = last_dropout_(out.last);
  return out;
}

Var TransformerSide::step(const Embedding& words, const Tensor& ids,
                          std::int64_t position,
                          std::vector<LayerCache>& caches) {
  Var tokens = scaled(words(ids, "ids"), scale_);
  if (positions_) {
    tokens = add(tokens, positions_->at(position, tokens.device()));
  }
  return stack_.step(tokens, caches, norm_.get());
}

TransformerBody::TransformerBody(const TransformerDesign& design, DType dtype)
    : sizes_(design),
      source_words_(design.source_vocab, design.width, dtype, design.word_init,
                    design.idle_word),
      encoder_(design, design.encoder, dtype),
      decoder_(design, design.decoder, dtype) {
  const std::string words = design.names.words;
  if (design.shared_words) {
    add_child(words, source_words_);
  } else {
    target_words_ =
        std::make_unique<Embedding>(design.target_vocab, design.width, dtype,
                                    design.word_init, design.idle_word);
    add_child("encoder." + words, source_words_);
    add_child("decoder." + words, *target_words_);
  }
  add_child("encoder", encoder_);
  add_child("decoder", decoder_);
}

PackedText TransformerBody::packed(const TextInputs& inputs,
                                   std::int64_t heads) const {
  // Positions count tokens, not columns, so pack() has nothing to check.
  const PackedText text = pack(inputs, heads, {TransformerSizes::kNoLimit});
  const std::int64_t longest = text.packing->longest_query();
  EA_CHECK_AS(InputError, longest <= sizes_.positions, "forward",
              "{} has a sequence of {} tokens, this model takes {} "
              "(max_position_embeddings); pass truncation=True and "
              "max_length={} to the tokenizer",
              inputs.named("input_ids"), longest, sizes_.positions,
              sizes_.positions);
  return text;
}

PackedText TransformerBody::packed_source(const TextInputs& source) const {
  PackedText text = packed(source, sizes_.encoder_heads);
  check_ids(text, "input_ids", text.input_ids, sizes_.source_vocab,
            "vocab_size");
  return text;
}

EncodedPair TransformerBody::forward(const TextInputs& source,
                                     const TextInputs& target) {
  EncodedPair out;
  out.source = packed_source(source);
  out.target = packed(target, sizes_.decoder_heads);
  const std::int64_t sources = out.source.packing->sequences();
  const std::int64_t targets = out.target.packing->sequences();
  EA_CHECK(sources == targets, "forward",
           "{} sources and {} targets; expected one target for each source",
           sources, targets);
  check_ids(out.target, "decoder_input_ids", out.target.input_ids,
            sizes_.target_vocab, sizes_.target_vocab_option);
  out.encoder = encoder_.forward(source_words_, out.source, "input_ids",
                                 source.wanted, {});
  out.decoder =
      decoder_.forward(target_table(), out.target, "decoder_input_ids",
                       target.wanted, {out.encoder.last, out.source.packing});
  return out;
}

Tokens TransformerBody::encode(const TextInputs& source) {
  const PackedText text = packed_source(source);
  return {encoder_.forward(source_words_, text, "input_ids", {}, {}).last,
          text.packing};
}

Var TransformerBody::decode(const Tensor& ids,
                            const std::vector<std::int64_t>& offsets,
                            const Tokens& memory) {
  PackedText text;
  text.packing = std::make_shared<const Packing>(sizes_.decoder_heads, offsets);
  text.input_ids = ids;
  return decoder_.forward(target_table(), text, "ids", {}, memory).last;
}

std::vector<LayerCache> TransformerBody::start(const Tokens& memory) const {
  const std::vector<CachePlan> self = cache_plans(false).value();
  const std::vector<CachePlan> cross = cache_plans(true).value();
  std::vector<LayerCache> caches;
  for (const DecoderLayer* layer : decoder_layers()) {
    const std::size_t i = caches.size();
    caches.push_back(layer->over(memory, self[i], cross[i]));
  }
  return caches;
}

Var TransformerBody::step(const Tensor& ids, std::int64_t position,
                          std::vector<LayerCache>& caches) {
  return decoder_.step(target_table(), ids, position, caches);
}

std::vector<const DecoderLayer*> TransformerBody::decoder_layers() const {
  std::vector<const DecoderLayer*> layers;
  for (const std::shared_ptr<Layer>& layer : decoder_.stack().layers()) {
    layers.push_back(&dynamic_cast<const DecoderLayer&>(*layer));
  }
  return layers;
}

// A row of a map depends on the earlier rows that its layer reaches back to
// and, where maps are carried, on the rows that the layers below reach back to
// from there. A layer that caches what it reads of those rows needs no others.
std::optional<std::vector<CachePlan>> TransformerBody::cache_plans(
    bool cross) const {
  std::vector<CachePlan> plans;
  bool carried = false, by_number = true;
  std::int64_t sum = 0;
  for (const DecoderLayer* layer : decoder_layers()) {
    const Attention& attention = cross ? layer->cross() : layer->self();
    const std::optional<std::int64_t> own = attention.reach_back();
    if (!own) return {};
    const bool numbered = attention.steps_by_number();
    plans.push_back({numbered, numbered ? 0 : *own});
    carried |= attention.takes_previous();
    by_number &= numbered;
    sum += *own;
  }
  if (carried && !by_number) {
    std::fill(plans.begin(), plans.end(), CachePlan{false, sum});
  }
  return plans;
}

bool TransformerBody::can_cache() const {
  return cache_plans(false) && cache_plans(true);
}

bool TransformerBody::reads_later_targets() const {
  for (const DecoderLayer* layer : decoder_layers()) {
    if (layer->cross().reads_later_queries()) return true;
  }
  return false;
}

}  // namespace ea
