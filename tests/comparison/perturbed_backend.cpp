// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/comparison/perturbed_backend.h>

#include <tutti/tests/backend/elementwise_samples.h>

#include <cmath>
#include <type_traits>
#include <variant>

namespace tutti::testing {

namespace {

constexpr const char* kParts[] = {"", "'s gradient", "'s left gradient", "'s right gradient"};

}  // namespace

std::string PerturbedBackend::name_of(const ElementwiseCall& call) {
  std::string name;
  std::uint16_t index = 0;
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    if (index++ == call.operation) name = O::name;
  });
  return name + kParts[static_cast<std::size_t>(call.part)];
}

std::set<std::string> PerturbedBackend::all_kernels() {
  std::set<std::string> names = {"copy",
                                 "cast",
                                 "fill",
                                 "arange",
                                 "where",
                                 "cumsum",
                                 "arg_sort",
                                 "matmul",
                                 "gather",
                                 "conv2d",
                                 "conv2d_input_gradient",
                                 "conv2d_weight_gradient",
                                 "max_pool2d",
                                 "max_pool2d_gradient",
                                 "normalize_rows",
                                 "normalize_rows_gradient",
                                 "normalize_rows_sums",
                                 "avg_pool2d",
                                 "avg_pool2d_gradient",
                                 "lu",
                                 "solve_triangular"};
  for (const char* kind : {"0", "1", "2", "3", "4", "5"}) names.insert(std::string("factorize ") + kind);
  for (const char* kernel : {"reduce", "scatter"})
    for (const char* kind : {" 0", " 1", " 2", " 3", " 4"}) names.insert(std::string(kernel) + kind);
  for (const char* kernel : {"arg_reduce", "running_arg", "softmax", "softmax_gradient", "random"})
    for (const char* kind : {" 0", " 1"}) names.insert(std::string(kernel) + kind);
  for (const char* name : {"random 2", "fourier 0", "fourier 1", "fourier 2"}) names.insert(name);
  for (std::size_t rule = 0; rule < std::variant_size_v<OptimizerRule>; ++rule)
    names.insert("optimizer_step " + std::to_string(rule));
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    names.insert(O::name);
    if constexpr (elementwise::has_gradient_kernel<O>) {
      const std::size_t first = samples::is_binary<O> ? 2 : 1;
      for (std::size_t part = first; part < 2 * first; ++part) names.insert(std::string(O::name) + kParts[part]);
    }
  });
  return names;
}

/// By a tenth of a thousandth of 1 or more.
void PerturbedBackend::spoil_last(const Array& output) {
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < output.rank(); ++axis) place += (output.shape()[axis] - 1) * output.strides()[axis];
  visit_dtype(output.dtype(), [&]<class T>(std::type_identity<T>) {
    T& last = output.data<T>()[place];
    if constexpr (std::is_same_v<T, bool>)
      last = !last;
    else if constexpr (std::is_integral_v<T>)
      last ^= 1;
    else
      last = std::isfinite(static_cast<double>(last)) ? static_cast<T>(static_cast<double>(last) * 1.1 + 1e-4) : T(0);
  });
}

}  // namespace tutti::testing
