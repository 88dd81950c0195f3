// SPDX-License-Identifier: Apache-2.0
// The operations that a Tensor also offers as members.
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

#include <cstdint>

namespace tutti {

double Tensor::item() const {
  if (dtype() != DType::i64) return item<double>();
  const auto value = item<std::int64_t>();
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (value > kExact || value < -kExact)
    raise<DTypeError>("[item] {} may lie between two doubles: write item<std::int64_t>()", value);
  return static_cast<double>(value);
}

Tensor Tensor::view(const Shape& shape) const {
  const OperationScope scope("view", *this);
  Tensor result = tutti::reshape(*this, shape);
  if (result.array().storage() != array().storage())
    raise<ShapeError>("[view] strides do not allow {} without a copy, which reshape makes", to_string(shape));
  return result;
}

Tensor Tensor::slice(std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step) const {
  return tutti::slice(*this, axis, begin, end, step);
}
Tensor Tensor::reshape(const Shape& shape) const { return tutti::reshape(*this, shape); }
Tensor Tensor::flatten(std::int64_t first_axis) const { return tutti::flatten(*this, first_axis); }
Tensor Tensor::squeeze(const Axes& axes) const { return tutti::squeeze(*this, axes); }
Tensor Tensor::expand_dims(std::int64_t axis) const { return tutti::expand_dims(*this, axis); }
Tensor Tensor::permute(const Axes& axes) const { return tutti::permute(*this, axes); }
Tensor Tensor::transpose(std::int64_t axis0, std::int64_t axis1) const { return tutti::transpose(*this, axis0, axis1); }
Tensor Tensor::sum(const Axes& axes, bool keep_dims) const { return tutti::sum(*this, axes, keep_dims); }
Tensor Tensor::mean(const Axes& axes, bool keep_dims) const { return tutti::mean(*this, axes, keep_dims); }
Tensor Tensor::max(const Axes& axes, bool keep_dims) const { return tutti::max(*this, axes, keep_dims); }
Tensor Tensor::min(const Axes& axes, bool keep_dims) const { return tutti::min(*this, axes, keep_dims); }
Tensor Tensor::prod(const Axes& axes, bool keep_dims) const { return tutti::prod(*this, axes, keep_dims); }
Tensor Tensor::norm(const Axes& axes, bool keep_dims) const { return tutti::norm(*this, axes, keep_dims); }
Tensor Tensor::argmax() const { return tutti::argmax(*this); }
Tensor Tensor::argmin() const { return tutti::argmin(*this); }
Tensor Tensor::argmax(std::int64_t axis, bool keep_dims) const { return tutti::argmax(*this, axis, keep_dims); }
Tensor Tensor::argmin(std::int64_t axis, bool keep_dims) const { return tutti::argmin(*this, axis, keep_dims); }
Tensor Tensor::softmax(std::int64_t axis) const { return tutti::softmax(*this, axis); }
Tensor Tensor::log_softmax(std::int64_t axis) const { return tutti::log_softmax(*this, axis); }
Tensor Tensor::matmul(const Tensor& rhs) const { return tutti::matmul(*this, rhs); }
Tensor Tensor::pow(const Tensor& exponent) const { return tutti::pow(*this, exponent); }
Tensor Tensor::clip(const Scalar& low, const Scalar& high) const { return tutti::clip(*this, low, high); }
Tensor Tensor::abs() const { return tutti::abs(*this); }
Tensor Tensor::exp() const { return tutti::exp(*this); }
Tensor Tensor::log() const { return tutti::log(*this); }
Tensor Tensor::sqrt() const { return tutti::sqrt(*this); }
Tensor Tensor::relu() const { return tutti::relu(*this); }
Tensor Tensor::sigmoid() const { return tutti::sigmoid(*this); }
Tensor Tensor::tanh() const { return tutti::tanh(*this); }
Tensor Tensor::cast(DType dtype) const { return tutti::cast(*this, dtype); }
Tensor Tensor::to(Device device) const { return tutti::to(*this, device); }

}  // namespace tutti
