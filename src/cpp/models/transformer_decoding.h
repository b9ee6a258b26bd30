// Targets of the Transformer, token by token.
#pragma once

#include "models/seq2seq.h"
#include "models/transformer.h"

namespace ea {

// Reads caches, or (not `cached`) decodes all tokens again for every new one.
// `output` [vocabulary, width]: logits = h output^T.
std::unique_ptr<TargetState> start_target(TransformerBody& body,
                                          const Var& output,
                                          const TextInputs& source,
                                          bool cached);

}  // namespace ea
