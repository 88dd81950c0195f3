// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/recurrent/sequence_lengths.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>

namespace tutti {

SequenceLengths::SequenceLengths(const Tensor& lengths) : given_(true) {
  if (lengths.rank() != 1)
    raise<ShapeError>("[lengths] need one axis, a number for each sequence, got {}", to_string(lengths.shape()));
  if (!is_integral(lengths.dtype()))
    raise<DTypeError>("[lengths] are {}: they must be integers", to_string(lengths.dtype()));
  values_ = cast(lengths, DType::i64).to_vector<std::int64_t>();
}

bool SequenceLengths::any_shorter(std::string_view network, std::int64_t time, std::int64_t batch) const {
  if (!given_) return false;
  if (std::ssize(values_) != batch)
    raise<ShapeError>("[{}] {} lengths for a batch of {} sequences", network, values_.size(), batch);
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (values_[i] < 1 || values_[i] > time)
      raise<ShapeError>("[{}] the length of sequence {} is {}, not from 1 to the {} steps of x", network, i, values_[i],
                        time);
  return std::ranges::any_of(values_, [&](std::int64_t length) { return length < time; });
}

}  // namespace tutti
