// Steps of an eighth, and arrays with something behind their end.
#include "models/prepared_text.h"

#include <algorithm>

#include "ops/losses.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr std::int64_t kTokens = 64;   // least step of tokens
constexpr std::int64_t kLongest = 16;  // ... of the longest sequence

std::int64_t step_of(std::int64_t n, std::int64_t least) {
  std::int64_t power = 1;
  while (power * 2 <= n) power *= 2;
  return std::max(least, power / 8);
}

// t [n] as [size], `value` behind its end.
Tensor lengthened(const Tensor& t, std::int64_t size, std::int64_t value) {
  const Tensor out = empty({size}, DType::i64);
  auto* const to = out.data<std::int64_t>();
  const auto* const from = t.data<std::int64_t>();
  std::fill(std::copy(from, from + t.numel(), to), to + size, value);
  return out;
}

}  // namespace

std::int64_t made_up(std::int64_t n, std::int64_t least) {
  const std::int64_t step = step_of(n, least);
  return (n + step - 1) / step * step;
}

PackedText with_room(const PackedText& text, std::int64_t heads,
                     std::int64_t padding_id) {
  const std::int64_t tokens = text.input_ids.numel();
  const std::int64_t all = made_up(tokens, kTokens);
  const std::int64_t longest = made_up(text.length, kLongest);
  // As many sequences for any number of tokens that is made up to this one.
  const std::int64_t most = step_of(tokens, kTokens) - 1;
  std::vector<std::int64_t> offsets = text.packing->q_offsets();
  for (std::int64_t left = most; left > 0; left -= longest) {
    offsets.push_back(std::min(all, offsets.back() + longest));
  }
  PackedText out = text;
  out.packing = Packing::roomy(heads, std::move(offsets), longest);
  out.padded = false;
  out.pad_index = out.places = {};
  out.input_ids = lengthened(text.input_ids, all, padding_id);
  out.token_type_ids = lengthened(text.token_type_ids, all, 0);
  out.position_ids = lengthened(text.position_ids, all, 0);
  return out;
}

Tensor prepared_labels(const Tensor& labels, std::int64_t rows,
                       std::int64_t classes, DType dtype) {
  EA_CHECK(labels.defined() && labels.numel() == rows, "prepare",
           "labels have shape {}, expected one for each of {} sequences",
           labels.shape(), rows);
  const Tensor here = to_device(contiguous(labels), kCpu);
  if (classes == 1) return cast(here, dtype);
  check_class_labels("prepare", here, rows, classes);
  return here;
}

Tensor prepared_token_labels(const Tensor& labels, const PackedText& text,
                             const PackedText& roomy, std::int64_t classes) {
  EA_CHECK(labels.defined(), "prepare",
           "labels are missing, expected one for each of {} tokens",
           text.input_ids.numel());
  const Tensor packed = pack_labels(labels, text);
  check_ids(text, "labels", packed, classes, "vocab_size", kIgnoreIndex);
  return lengthened(packed, roomy.input_ids.numel(), kIgnoreIndex);
}

std::vector<Tensor> read_by_step(const TextInputs& prepared) {
  const PackedText& text = *prepared.packed;
  std::vector<Tensor> all{text.input_ids, text.token_type_ids,
                          text.position_ids, text.first_rows,
                          text.packing->offsets()};
  for (const Tensor& t : {prepared.labels, prepared.next_sentence_label}) {
    if (t.defined()) all.push_back(t);
  }
  return all;
}

std::string shape_key(const TextInputs& prepared) {
  std::string key = format("{} {}", prepared.packed->packing->map_elements(),
                           prepared.label_smoothing);
  for (const Tensor& t : read_by_step(prepared)) {
    key += format(" {} {}", t.shape(), t.dtype());
  }
  return key;
}

}  // namespace ea
