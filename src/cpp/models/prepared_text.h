// Batches made up to shapes that come again, for training steps that are
// written down once: tokens behind the batch's own, in sequences that no loss
// reads, and attention maps with room.
#pragma once

#include <string>
#include <vector>

#include "models/inputs.h"

namespace ea {

// The multiple of a step that n is made up to: the step is `least`, or an
// eighth of the largest power of two up to n. So the result is less than n +
// max(least, n / 8), and few results serve all n.
std::int64_t made_up(std::int64_t n, std::int64_t least);

// The batch with tokens of `padding_id` behind it, which are sequences of their
// own: nothing of the others changes but sums over all tokens, to which they
// add 0. first_rows are those of the batch.
PackedText with_room(const PackedText& text, std::int64_t heads,
                     std::int64_t padding_id);

// Labels of sequences, checked, on the CPU, for `classes` classes or, where
// that is 1, values of type `dtype`. Throws as the loss does.
Tensor prepared_labels(const Tensor& labels, std::int64_t rows,
                       std::int64_t classes, DType dtype);
// Labels of tokens (see pack_labels), the added ones ignored.
Tensor prepared_token_labels(const Tensor& labels, const PackedText& text,
                             const PackedText& roomy, std::int64_t classes);

// What a step reads of prepared inputs, all on the CPU.
std::vector<Tensor> read_by_step(const TextInputs& prepared);
// Equal for inputs that one step can serve.
std::string shape_key(const TextInputs& prepared);

}  // namespace ea
