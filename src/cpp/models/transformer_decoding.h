// Token-by-token targets of the Transformer.
#pragma once

#include "models/seq2seq.h"
#include "models/transformer.h"

namespace ea {

// Reads caches or, if not `cached`, decodes all tokens again for every new one.
std::unique_ptr<TargetState> start_target(TransformerBody& body,
                                          const OutputMatrix& output,
                                          const TextInputs& source,
                                          bool cached);

}  // namespace ea
