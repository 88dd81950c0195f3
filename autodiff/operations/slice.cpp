// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

#include <vector>

namespace tutti {

namespace {

// dy in the middle of zeros: the gradient of slice, and slice is its gradient.
Tensor pad_slice(const Tensor& x, const Shape& shape, std::int64_t axis, std::int64_t begin) {
  Array value = Array::zeros(shape, x.dtype(), x.device());
  const std::int64_t end = begin + x.length(axis);
  value.slice(axis, begin, end).copy_from(x.array());
  const Tensor inputs[] = {x};
  return record("pad", std::move(value), inputs, [&] {
    return [axis, begin, end](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, slice(dy, axis, begin, end));
    };
  });
}

}  // namespace

Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t begin, std::int64_t end) {
  const std::int64_t length = x.length(axis);
  const std::int64_t from = begin < 0 ? begin + length : begin;
  const Tensor inputs[] = {x};
  return record("slice", x.array().slice(axis, begin, end), inputs, [&] {
    return [shape = x.shape(), axis, from](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, pad_slice(dy, shape, axis, from));
    };
  });
}

Tensor concatenate(std::span<const Tensor> tensors, std::int64_t axis) {
  DType dtype = DType::boolean;
  for (const Tensor& tensor : tensors) dtype = promote(dtype, tensor.dtype());
  std::vector<Tensor> inputs;
  std::vector<Array> arrays;
  std::vector<std::int64_t> lengths;
  for (const Tensor& tensor : tensors) {
    inputs.push_back(cast(tensor, dtype));
    arrays.push_back(inputs.back().array());
    lengths.push_back(tensor.rank() > 0 ? tensor.length(axis) : 0);
  }
  return record("concatenate", concatenate(arrays, axis), inputs, [&] {
    return [lengths, axis](const auto&, const Tensor& dy, InputGradients& gradients) {
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < lengths.size(); begin += lengths[i++])
        if (gradients.wanted(i)) gradients.set(i, slice(dy, axis, begin, begin + lengths[i]));
    };
  });
}

}  // namespace tutti
