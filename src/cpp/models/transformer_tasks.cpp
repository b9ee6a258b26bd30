// The two tasks: hidden states, and the next target token.
#include "models/transformer_tasks.h"

#include "models/transformer_decoding.h"
#include "ops/losses.h"
#include "runtime/check.h"

namespace ea {

namespace {

void put_states(ModelOutput& out, const std::string& name,
                const std::map<int, Var>& states, const PackedRows& rows) {
  out.by_stack[name] =
      shown(states, [rows](const Var& x) { return pad_rows(x, rows); });
}

void put_maps(ModelOutput& out, const std::string& name, const KeptMaps& maps,
              const PackedRows& queries, const PackedRows& keys) {
  const PadMaps pad = pads_maps(queries, keys);
  out.by_stack[name + "_attentions"] = shown(maps.probabilities, pad);
  out.by_stack[name + "_attention_logits"] = shown(maps.logits, pad);
  out.by_stack[name + "_attention_scores"] = shown(maps.scores, pad);
}

ModelOutput output_of(const EncodedPair& pair) {
  ModelOutput out;
  const PackedRows& source = pair.source;
  const PackedRows& target = pair.target;
  const StackOutput& encoder = pair.encoder;
  const StackOutput& decoder = pair.decoder;
  out.encoder_last_hidden_state = pad_rows(encoder.last, source);
  put_states(out, "encoder_hidden_states", encoder.hidden_states, source);
  put_states(out, "decoder_hidden_states", decoder.hidden_states, target);
  put_maps(out, "encoder", encoder.maps, source, source);
  put_maps(out, "decoder", decoder.maps, target, target);
  put_maps(out, "cross", decoder.cross_maps, target, source);
  return out;
}

class TransformerModel final : public Model {
 public:
  TransformerModel(const TransformerDesign& design, DType dtype)
      : sizes_(design), body_(design, dtype) {
    add_child("", body_);
  }

  ModelOutput forward(const Inputs& given) override {
    const EncodedPair pair =
        body_.forward(source_inputs(given),
                      target_inputs(given, sizes_.start, sizes_.padding));
    ModelOutput out = output_of(pair);
    out.last_hidden_state = pad_rows(pair.decoder.last, pair.target);
    return out;
  }

 private:
  TransformerSizes sizes_;
  TransformerBody body_;
};

class TransformerForConditionalGeneration final : public Seq2SeqModel {
 public:
  TransformerForConditionalGeneration(const TransformerDesign& design,
                                      DType dtype)
      : sizes_(design), body_(design, dtype) {
    add_child(design.names.body, body_);
    output_ = {body_.target_words(), design.output_scale};
    if (design.tied_output) return;
    output_.weight =
        add_parameter("lm_head.weight", {design.target_vocab, design.width},
                      dtype, design.output_init);
  }

  ModelOutput forward(const Inputs& given) override {
    const TextInputs target =
        target_inputs(given, sizes_.start, sizes_.padding);
    const EncodedPair pair = body_.forward(source_inputs(given), target);
    ModelOutput out = output_of(pair);
    const Var logits = output_.logits(pair.decoder.last);
    out.logits = pad_rows(logits, pair.target);
    if (target.labels.defined()) {
      const Tensor labels = pack_labels(target.labels, pair.target);
      check_ids(pair.target, "labels", labels, sizes_.target_vocab,
                sizes_.target_vocab_option, kIgnoreIndex);
      out.loss = cross_entropy(logits, labels, target.label_smoothing);
    }
    return out;
  }

  bool can_cache() const override { return body_.can_cache(); }
  void check_order() const override {
    EA_CHECK_AS(ConfigError, !body_.reads_later_targets(), "generate",
                "the cross attention of this model reads later target tokens "
                "(shift='key_literal'), which are not there yet; train it "
                "with shift='query'");
  }
  std::int64_t longest_target() const override { return sizes_.positions; }
  std::int64_t target_vocabulary() const override {
    return sizes_.target_vocab;
  }
  std::unique_ptr<TargetState> start(const Inputs& source,
                                     bool cached) override {
    return start_target(body_, output_, source_inputs(source), cached);
  }

 private:
  TransformerSizes sizes_;
  TransformerBody body_;
  OutputMatrix output_;
};

}  // namespace

std::unique_ptr<Model> make_transformer(const ModelConfig& config,
                                        const TransformerDesign& design) {
  const std::string head = config.options.text("head", "base");
  if (head == "base") {
    return std::make_unique<TransformerModel>(design, config.dtype);
  }
  if (head == "seq2seq_lm") {
    return std::make_unique<TransformerForConditionalGeneration>(design,
                                                                 config.dtype);
  }
  fail<ConfigError>("transformer",
                    "unknown head '{}'; expected base or seq2seq_lm", head);
}

}  // namespace ea
