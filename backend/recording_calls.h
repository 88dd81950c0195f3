// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/backend.h>
#include <tutti/backend/capture.h>

#include <cstddef>
#include <string_view>

namespace tutti {

/// The backend that a capturing thread sees: passes every call on to the device's own, and adds it to the tape.
class RecordingCalls final : public Backend {
 public:
  explicit RecordingCalls(Capture&);

  void check(Device device) const override { inner_.check(device); }
  MemoryPool& pool(Device) override;
  Stream& compute_stream(Device device) override { return inner_.compute_stream(device); }
  Stream& communication_stream(Device device) override { return inner_.communication_stream(device); }
  bool multiplies(DType dtype) const override { return inner_.multiplies(dtype); }

  void copy_from_host(const void*, const Array&) override;
  void copy_to_host(const Array&, void*) override;
  void copy(const Array&, const Array&) override;
  void copy_from_device(const Array&, const Array&) override;
  void cast(const Array&, const Array&) override;
  void fill(const Array&, Scalar) override;
  void arange(const Array&, std::int64_t, std::int64_t) override;

  void elementwise(const ElementwiseCall&, std::span<const Array>, const Array&) override;
  void where(const Array&, const Array&, const Array&, const Array&) override;
  void reduce(Reduction, const Array&, const Array&) override;
  void arg_reduce(ArgReduction, const Array&, std::size_t, const Array&) override;
  void cumsum(const Array&, std::size_t, bool, const Array&) override;
  void running_arg(ArgReduction, const Array&, std::size_t, const Array&) override;
  void arg_sort(const Array&, std::size_t, bool, const Array&) override;
  void fourier(const FourierTransform&, const Array&, const Array&) override;

  void matmul(const Array&, const Array&, const Array&) override;
  void linear(const Array&, const Array&, const Array&, LinearActivation, const Array&) override;
  void softmax(SoftmaxKind, const Array&, std::size_t, const Array&) override;
  void softmax_gradient(SoftmaxKind, const Array&, const Array&, std::size_t, const Array&) override;
  void normalize_rows(const RowNorm&, const Array&, const Array&, const Array&, const Array&, const Array&,
                      const Array&) override;
  void normalize_rows_gradient(const RowNorm&, const Array&, const Array&, const Array&, const Array&, const Array&,
                               const Array&) override;
  void normalize_rows_sums(const Array&, const Array&, const Array&, const Array&, const Array&, const Array&) override;
  void gather(const Array&, std::size_t, const Array&, const Array&) override;
  void scatter(Scatter, const Array&, std::size_t, const Array&, const Array&) override;
  void conv2d(const Conv2dGeometry&, const Array&, const Array&, const Array&) override;
  void conv2d_input_gradient(const Conv2dGeometry&, const Array&, const Array&, const Array&) override;
  void conv2d_weight_gradient(const Conv2dGeometry&, const Array&, const Array&, const Array&) override;
  void max_pool2d(const Pool2dGeometry&, const Array&, const Array&, const Array&) override;
  void max_pool2d_gradient(const Pool2dGeometry&, const Array&, const Array&, const Array&) override;
  void avg_pool2d(const AvgPool2dGeometry&, const Array&, const Array&) override;
  void avg_pool2d_gradient(const AvgPool2dGeometry&, const Array&, const Array&) override;
  void factorize(Factorization, const Array&, const Array&) override;
  void lu(const Array&, const Array&, const Array&, const Array&) override;
  void solve_triangular(const TriangularSystem&, const Array&, const Array&, const Array&) override;
  void random(const RandomCall&, const Array&) override;
  void dropout(const DropoutCall&, const Array&, const Array&, const Array&) override;
  void dropout_gradient(double, const Array&, const Array&, const Array&) override;
  void optimizer_step(const OptimizerRule&, std::span<const RuleOperands>) override;

 private:
  template <std::size_t Count = 1, bool kConstant = true, class Method, class... Arguments>
  void pass_on(std::string_view name, Method, const Arguments&...);
  void require_own(std::string_view name, const Array&) const;

  Capture& capture_;
  Backend& inner_;
};

}  // namespace tutti
