// SPDX-License-Identifier: Apache-2.0
// Several tensors into one, and one into several.
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/memory/thread_cache.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {

Tensor concatenate(std::span<const Tensor> tensors, std::int64_t axis) {
  const OperationScope scope("concatenate", tensors);
  DType dtype = DType::boolean;
  for (const Tensor& tensor : tensors) dtype = promote(dtype, tensor.dtype());
  CachedVector<Tensor> inputs;
  CachedVector<Array> arrays;
  for (const Tensor& tensor : tensors) {
    inputs.push_back(cast(tensor, dtype));
    arrays.push_back(inputs.back().array());
  }
  Array value = concatenate(arrays, axis);  // which checks the axis
  return record("concatenate", std::move(value), inputs, [&] {
    CachedVector<std::int64_t> lengths;
    for (const Array& array : arrays) lengths.push_back(array.length(axis));
    return [lengths, axis](const auto&, const Tensor& dy, InputGradients& gradients) {
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < lengths.size(); begin += lengths[i++])
        if (gradients.wanted(i)) gradients.set(i, slice(dy, axis, begin, begin + lengths[i]));
    };
  });
}

Tensor stack(std::span<const Tensor> tensors, std::int64_t axis) {
  const OperationScope scope("stack", tensors);
  if (tensors.empty()) raise<ShapeError>("[stack] there are no tensors");
  const std::int64_t place = normalize_new_axis("stack", axis, tensors.front().shape());
  CachedVector<Tensor> parts;
  for (const Tensor& tensor : tensors) {
    if (tensor.shape() != tensors.front().shape())
      raise<ShapeError>("[stack] shapes {} and {} differ", to_string(tensors.front().shape()),
                        to_string(tensor.shape()));
    parts.push_back(expand_dims(tensor, place));
  }
  return concatenate(parts, place);
}

std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> lengths, std::int64_t axis) {
  const OperationScope scope("split", x);
  const std::int64_t length = x.shape()[normalize_axis("split", axis, x.rank())];
  CheckedSize total = 0;
  for (const std::int64_t part : lengths) {
    if (part < 0) raise<ShapeError>("[split] lengths {}: {} is negative", to_string(Dims(lengths)), part);
    total = total + part;
  }
  if (total.get("split", "the sum of {} lengths", lengths.size()) != length)
    raise<ShapeError>("[split] lengths {} do not add up to axis {} of {}", to_string(Dims(lengths)), axis,
                      to_string(x.shape()));
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t part : lengths) {
    parts.push_back(slice(x, axis, begin, begin + part));
    begin += part;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t length, std::int64_t axis) {
  const OperationScope scope("split", x);
  if (length < 1) raise<ShapeError>("[split] parts of length {}: it must be positive", length);
  std::int64_t left = x.shape()[normalize_axis("split", axis, x.rank())];
  std::vector<std::int64_t> lengths;
  do lengths.push_back(std::min(length, left));
  while ((left -= length) > 0);
  return split(x, lengths, axis);
}

}  // namespace tutti
