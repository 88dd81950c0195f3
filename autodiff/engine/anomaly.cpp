// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/anomaly.h>

#include <tutti/autodiff/node.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace tutti {

namespace detail {
constinit thread_local const AnomalyOptions* anomaly = nullptr;
}

namespace {

enum class Found : std::uint8_t { nothing, infinity, nan };

// 0 x is NaN for both, and 0 for everything else.
bool is_finite(const Array& values) {
  const Array zero = Array::zeros({}, values.dtype(), values.device());
  return sum(apply(elementwise::Multiply{}, values, zero)).item<double>() == 0.0;
}

Found look_into(const Array& values) {
  if (!values.defined() || values.size() == 0 || !is_floating(values.dtype()) || is_finite(values))
    return Found::nothing;
  const std::vector<double> numbers = values.cast(DType::f64).to_vector<double>();
  const bool nan = std::ranges::any_of(numbers, [](double x) { return std::isnan(x); });
  return nan ? Found::nan : detail::anomaly->infinities ? Found::infinity : Found::nothing;
}

const char* name_of(Found found) { return found == Found::nan ? "a NaN" : "an infinity"; }

std::string here() {
  const auto& site = Scope::site();
  return site ? fmt::format(" in {}", to_string(*site)) : std::string();
}

}  // namespace

void detail::inspect_result(std::string_view operation, const Array& result, std::span<const Tensor> inputs) {
  const Found found = look_into(result);
  if (found == Found::nothing) return;
  for (const Tensor& input : inputs)
    if (look_into(input.array()) >= found) return;
  // Not raised: it names the operation already.
  throw AutodiffError(fmt::format("[anomaly] {}{} made {} in its result of shape {}",
                                  step_title(operation_called(operation), operation), here(), name_of(found),
                                  to_string(result.shape())));
}

void detail::inspect_gradients(const Node& node, const Tensor& gradient, std::span<const Tensor> input_gradients) {
  for (std::size_t i = 0; i < input_gradients.size(); ++i) {
    if (!input_gradients[i].defined()) continue;
    const Found found = look_into(input_gradients[i].array());
    if (found == Found::nothing || look_into(gradient.array()) >= found) continue;
    raise<AutodiffError>("[anomaly] the backward of {} made {} in the gradient of its input {}, of shape {}",
                         node.step_title(), name_of(found), i, to_string(input_gradients[i].shape()));
  }
}

DetectAnomaly::DetectAnomaly(const AnomalyOptions& options)
    : outer_(std::exchange(detail::anomaly, &options_)), options_(options) {}

DetectAnomaly::~DetectAnomaly() { detail::anomaly = outer_; }

}  // namespace tutti
