// SPDX-License-Identifier: Apache-2.0
// The operations that a Tensor also offers as members.
#include <tutti/autodiff/operations.h>

namespace tutti {

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
Tensor Tensor::cast(DType dtype) const { return tutti::cast(*this, dtype); }
Tensor Tensor::to(Device device) const { return tutti::to(*this, device); }

}  // namespace tutti
