// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/elementwise/lists.h>

#include <set>
#include <string>
#include <vector>

namespace tutti::testing {

/// The CPU's kernels, of which one gives a wrong last element: what a comparison of devices must find. Notes the names
/// of the kernels that ran. One thread at a time.
class PerturbedBackend final : public Backend {
 public:
  std::string perturbed;  ///< the kernel's name; "": none
  std::set<std::string> ran;

  /// Every kernel there is, as `ran` names them. A function that Backend gains and this list lacks does not compile.
  static std::set<std::string> all_kernels();

  void check(Device device) const override { cpu_.check(device); }
  MemoryPool& pool(Device device) override { return cpu_.pool(device); }
  Stream& compute_stream(Device device) override { return cpu_.compute_stream(device); }
  Stream& communication_stream(Device device) override { return cpu_.communication_stream(device); }
  void copy_from_host(const void* from, const Array& to) override { cpu_.copy_from_host(from, to); }
  void copy_to_host(const Array& from, void* to) override { cpu_.copy_to_host(from, to); }

  void copy(const Array& from, const Array& to) override { run("copy", to, &Backend::copy, from, to); }
  void cast(const Array& from, const Array& to) override { run("cast", to, &Backend::cast, from, to); }
  void fill(const Array& to, Scalar value) override { run("fill", to, &Backend::fill, to, value); }
  void arange(const Array& to, std::int64_t first, std::int64_t step) override {
    run("arange", to, &Backend::arange, to, first, step);
  }
  void elementwise(const ElementwiseCall& call, std::span<const Array> inputs, const Array& output) override {
    run(name_of(call), output, &Backend::elementwise, call, inputs, output);
  }
  void where(const Array& mask, const Array& a, const Array& b, const Array& output) override {
    run("where", output, &Backend::where, mask, a, b, output);
  }
  void reduce(Reduction kind, const Array& input, const Array& output) override {
    run("reduce " + std::to_string(static_cast<int>(kind)), output, &Backend::reduce, kind, input, output);
  }
  void arg_reduce(ArgReduction kind, const Array& input, std::size_t axis, const Array& output) override {
    run("arg_reduce " + std::to_string(static_cast<int>(kind)), output, &Backend::arg_reduce, kind, input, axis,
        output);
  }
  void cumsum(const Array& input, std::size_t axis, bool reverse, const Array& output) override {
    run("cumsum", output, &Backend::cumsum, input, axis, reverse, output);
  }
  void running_arg(ArgReduction kind, const Array& input, std::size_t axis, const Array& output) override {
    run("running_arg " + std::to_string(static_cast<int>(kind)), output, &Backend::running_arg, kind, input, axis,
        output);
  }
  void arg_sort(const Array& input, std::size_t axis, bool descending, const Array& output) override {
    run("arg_sort", output, &Backend::arg_sort, input, axis, descending, output);
  }
  void fourier(const FourierTransform& transform, const Array& input, const Array& output) override {
    run("fourier " + std::to_string(static_cast<int>(transform.kind)), output, &Backend::fourier, transform, input,
        output);
  }
  void matmul(const Array& lhs, const Array& rhs, const Array& output) override {
    run("matmul", output, &Backend::matmul, lhs, rhs, output);
  }
  void softmax(SoftmaxKind kind, const Array& input, std::size_t axis, const Array& output) override {
    run("softmax " + std::to_string(static_cast<int>(kind)), output, &Backend::softmax, kind, input, axis, output);
  }
  void softmax_gradient(SoftmaxKind kind, const Array& output, const Array& gradient, std::size_t axis,
                        const Array& input_gradient) override {
    run("softmax_gradient " + std::to_string(static_cast<int>(kind)), input_gradient, &Backend::softmax_gradient, kind,
        output, gradient, axis, input_gradient);
  }
  void normalize_rows(const RowNorm& norm, const Array& input, const Array& weight, const Array& bias,
                      const Array& output, const Array& mean, const Array& scale) override {
    run("normalize_rows", output, &Backend::normalize_rows, norm, input, weight, bias, output, mean, scale);
  }
  void normalize_rows_gradient(const RowNorm& norm, const Array& input, const Array& weight, const Array& mean,
                               const Array& scale, const Array& gradient, const Array& input_gradient) override {
    run("normalize_rows_gradient", input_gradient, &Backend::normalize_rows_gradient, norm, input, weight, mean, scale,
        gradient, input_gradient);
  }
  void normalize_rows_sums(const Array& input, const Array& mean, const Array& scale, const Array& gradient,
                           const Array& weight_sums, const Array& bias_sums) override {
    run("normalize_rows_sums", weight_sums, &Backend::normalize_rows_sums, input, mean, scale, gradient, weight_sums,
        bias_sums);
  }
  void gather(const Array& input, std::size_t axis, const Array& index, const Array& output) override {
    run("gather", output, &Backend::gather, input, axis, index, output);
  }
  void scatter(Scatter kind, const Array& updates, std::size_t axis, const Array& index, const Array& output) override {
    run("scatter " + std::to_string(static_cast<int>(kind)), output, &Backend::scatter, kind, updates, axis, index,
        output);
  }
  void conv2d(const Conv2dGeometry& geometry, const Array& input, const Array& weight, const Array& output) override {
    run("conv2d", output, &Backend::conv2d, geometry, input, weight, output);
  }
  void conv2d_input_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& weight,
                             const Array& input_gradient) override {
    run("conv2d_input_gradient", input_gradient, &Backend::conv2d_input_gradient, geometry, gradient, weight,
        input_gradient);
  }
  void conv2d_weight_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& input,
                              const Array& weight_gradient) override {
    run("conv2d_weight_gradient", weight_gradient, &Backend::conv2d_weight_gradient, geometry, gradient, input,
        weight_gradient);
  }
  void max_pool2d(const Pool2dGeometry& geometry, const Array& input, const Array& output,
                  const Array& index) override {
    run("max_pool2d", output, &Backend::max_pool2d, geometry, input, output, index);
  }
  void max_pool2d_gradient(const Pool2dGeometry& geometry, const Array& gradient, const Array& index,
                           const Array& input_gradient) override {
    run("max_pool2d_gradient", input_gradient, &Backend::max_pool2d_gradient, geometry, gradient, index,
        input_gradient);
  }
  void avg_pool2d(const AvgPool2dGeometry& geometry, const Array& input, const Array& output) override {
    run("avg_pool2d", output, &Backend::avg_pool2d, geometry, input, output);
  }
  void avg_pool2d_gradient(const AvgPool2dGeometry& geometry, const Array& gradient,
                           const Array& input_gradient) override {
    run("avg_pool2d_gradient", input_gradient, &Backend::avg_pool2d_gradient, geometry, gradient, input_gradient);
  }
  void factorize(Factorization kind, const Array& input, const Array& output) override {
    run("factorize " + std::to_string(static_cast<int>(kind)), output, &Backend::factorize, kind, input, output);
  }
  void lu(const Array& input, const Array& factors, const Array& permutation, const Array& sign) override {
    run("lu", factors, &Backend::lu, input, factors, permutation, sign);
  }
  void solve_triangular(const TriangularSystem& system, const Array& matrix, const Array& right,
                        const Array& output) override {
    run("solve_triangular", output, &Backend::solve_triangular, system, matrix, right, output);
  }
  void random(const RandomCall& call, const Array& output) override {
    run("random " + std::to_string(static_cast<int>(call.kind)), output, &Backend::random, call, output);
  }
  void dropout(const DropoutCall& call, const Array& input, const Array& output, const Array& kept) override {
    run("dropout", output, &Backend::dropout, call, input, output, kept);
  }
  void dropout_gradient(double factor, const Array& kept, const Array& input, const Array& output) override {
    run("dropout_gradient", output, &Backend::dropout_gradient, factor, kept, input, output);
  }
  void optimizer_step(const OptimizerRule& rule, std::span<const RuleOperands> parameters) override {
    run("optimizer_step " + std::to_string(rule.index()), parameters.front().parameter, &Backend::optimizer_step, rule,
        parameters);
  }

 private:
  static std::string name_of(const ElementwiseCall&);
  static void spoil_last(const Array&);

  template <class Kernel, class... Arguments>
  void run(const std::string& name, const Array& output, Kernel kernel, const Arguments&... arguments) {
    (static_cast<Backend&>(cpu_).*kernel)(arguments...);
    ran.insert(name);
    if (name != perturbed || output.size() == 0) return;
    cpu_.compute_stream(output.device()).synchronize();
    spoil_last(output);
  }

  CpuBackend cpu_;
};

}  // namespace tutti::testing
