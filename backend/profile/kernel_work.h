// SPDX-License-Identifier: Apache-2.0
#pragma once

// The work of a kernel, from its arguments. One that is added to the list is known by the types of its parameters; a
// kernel that touches a part of an array has an overload of `traffic_of`, one that multiplies one of `flops_of`.

#include <tutti/backend/kernel.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <type_traits>

namespace tutti {

/// Bytes that a kernel reads and writes at least.
struct Traffic {
  double read = 0.0;
  double written = 0.0;
};

/// Bytes of the elements that an array has, each counted once however often it is repeated or windows overlap.
inline double distinct_bytes(const Array& array) {
  if (!array.defined() || array.size() == 0) return 0.0;
  std::int64_t elements = 1;
  std::int64_t reach = 1;
  for (std::size_t axis = 0; axis < array.rank(); ++axis) {
    const std::int64_t length = array.shape()[axis];
    const std::int64_t stride = std::abs(array.strides()[axis]);
    if (stride != 0) elements *= length;
    reach += (length - 1) * stride;
  }
  return static_cast<double>(std::min(elements, reach)) * static_cast<double>(size_of(array.dtype()));
}

/// Calls `f(array, reads, writes)` for each array among the arguments that is defined.
template <class Kernel, class F, class... Arguments> void for_each_array(const F& f, const Arguments&... arguments) {
  const auto visit = [&f](const Array& array, bool reads, bool writes) {
    if (array.defined()) f(array, reads, writes);
  };
  Kernel::Parameters::for_each(
      [&]<class Parameter>(const auto& argument) {
        constexpr bool kWrites = kernel::writes<Parameter>;
        constexpr bool kReads = !kWrites || std::is_same_v<Parameter, kernel::InOut>;
        using Argument = std::remove_cvref_t<decltype(argument)>;
        if constexpr (std::is_same_v<Argument, Array>) {
          visit(argument, kReads, kWrites);
        } else if constexpr (std::is_same_v<Argument, std::span<const Array>>) {
          for (const Array& each : argument) visit(each, kReads, kWrites);
        } else if constexpr (std::is_same_v<Argument, std::span<const RuleOperands>>) {
          for (const RuleOperands& each : argument) {
            visit(each.parameter, true, true);
            visit(each.gradient, true, false);
            for (const Array& state : each.state) visit(state, true, true);
          }
        }
      },
      arguments...);
}

template <class Kernel, class... Arguments> Traffic traffic_of(Kernel, const Arguments&... arguments) {
  Traffic traffic;
  for_each_array<Kernel>(
      [&traffic](const Array& array, bool reads, bool writes) {
        const double bytes = distinct_bytes(array);
        if (reads) traffic.read += bytes;
        if (writes) traffic.written += bytes;
      },
      arguments...);
  return traffic;
}
inline Traffic traffic_of(kernel::gather, const Array& input, std::size_t, const Array& index, const Array& output) {
  return {std::min(distinct_bytes(input), distinct_bytes(output)) + distinct_bytes(index), distinct_bytes(output)};
}
inline Traffic traffic_of(kernel::scatter, Scatter kind, const Array& updates, std::size_t, const Array& index,
                          const Array& output) {
  const double changed = std::min(distinct_bytes(updates), distinct_bytes(output));
  return {distinct_bytes(updates) + distinct_bytes(index) + (kind == Scatter::set ? 0.0 : changed), changed};
}

/// Operations of multiply-adds, two for each.
inline double multiply_adds(const Array& results, std::int64_t terms) {
  return 2.0 * static_cast<double>(results.size()) * static_cast<double>(terms);
}
/// Multiply-adds for each element of a convolution's output.
inline std::int64_t taps(const Array& weight) { return weight.size() / std::max<std::int64_t>(weight.length(0), 1); }

template <class Kernel, class... Arguments> double flops_of(Kernel, const Arguments&...) { return 0.0; }
inline double flops_of(kernel::matmul, const Array& lhs, const Array&, const Array& output) {
  return multiply_adds(output, lhs.length(-1));
}
inline double flops_of(kernel::linear, const Array& input, const Array&, const Array&, LinearActivation,
                       const Array& output) {
  return multiply_adds(output, input.length(-1));
}
inline double flops_of(kernel::conv2d, const Conv2dGeometry&, const Array&, const Array& weight, const Array& output) {
  return multiply_adds(output, taps(weight));
}
inline double flops_of(kernel::conv2d_input_gradient, const Conv2dGeometry&, const Array& gradient, const Array& weight,
                       const Array&) {
  return multiply_adds(gradient, taps(weight));
}
inline double flops_of(kernel::conv2d_weight_gradient, const Conv2dGeometry&, const Array& gradient, const Array&,
                       const Array& weight_gradient) {
  return multiply_adds(gradient, taps(weight_gradient));
}
/// Multiply-adds of products of queries with the keys that they see, some of d features, some of e.
inline double attention_flops(const AttentionScores& scores, const Array& query, const Array& key, const Array& value,
                              double products_of_d, double products_of_e) {
  const auto queries = static_cast<double>(query.length(-2));
  const auto keys = static_cast<double>(key.length(-2));
  const double first = std::min(queries, keys);  // queries that see one key, two, ...
  const double pairs = scores.causal ? first * (first + 1) / 2 + (queries - first) * keys : queries * keys;
  const double places =
      static_cast<double>(query.size()) / std::max(1.0, queries * static_cast<double>(query.length(-1)));
  return 2 * places * pairs *
         (products_of_d * static_cast<double>(query.length(-1)) +
          products_of_e * static_cast<double>(value.length(-1)));
}
inline double flops_of(kernel::attention, const AttentionScores& scores, const Array& query, const Array& key,
                       const Array& value, const Array&, const Array&, const Array&) {
  return attention_flops(scores, query, key, value, 1, 1);
}
/// Scores once more, and the gradients of queries and keys; of weights and values.
inline double flops_of(kernel::attention_gradient, const AttentionScores& scores, const Array& query, const Array& key,
                       const Array& value, const Array&, const Array&, const Array&, const Array&, const Array&,
                       const Array&, const Array&) {
  return attention_flops(scores, query, key, value, 3, 2);
}
inline double flops_of(kernel::recurrent_steps, const RecurrentSteps& steps, const Array&, const Array& weight,
                       const Array&, const Array&, const Array&, const Array&, const Array&, const Array&,
                       const Array&) {
  return multiply_adds(weight, steps.rows());
}
inline double flops_of(kernel::recurrent_steps_gradient, const RecurrentSteps& steps, bool, const Array& weight,
                       const Array&, const Array&, const Array&, const Array&, const Array&, const Array&, const Array&,
                       const Array&) {
  return multiply_adds(weight, steps.rows());
}

}  // namespace tutti
