// SPDX-License-Identifier: Apache-2.0
// The elementwise kernels against the CPU backend, on any views.
#include <tutti/backend/cuda/kernels/elementwise.h>
#include <tutti/backend/cuda/plans/element_plan.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string_view>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using samples::RandomViews;

/// What a host's and a device's mathematics may differ by is left to tests on a device: here, packs' from the C++
/// library's. `summand`: of what may cancel in the result.
template <class T> bool alike(T found, T expected, bool exact, double summand) {
  if (found == expected) return true;
  if constexpr (is_narrow(dtype_of<T>) && is_floating(dtype_of<T>)) {
    if (std::isnan(found) && std::isnan(expected)) return true;
    const double rounding = 0x1p-7 * std::abs(static_cast<double>(expected)) + 0x1p-20;  // to a neighbour
    return !exact &&
           std::abs(static_cast<double>(found) - static_cast<double>(expected)) <= rounding + 0x1p-19 * summand;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(found) && std::isnan(expected)) return true;
    const double size = std::max(std::abs(static_cast<double>(expected)), summand);
    return !exact && std::abs(static_cast<double>(found) - static_cast<double>(expected)) <=
                         std::numeric_limits<T>::epsilon() * (16 * size + 10);
  }
  return false;
}

/// `summands`: finite ones count; undefined: none.
template <class T>
std::size_t differences(const Array& found, const Array& expected, bool exact, const Array& summands) {
  const auto a = found.to_vector<T>();
  const auto b = expected.to_vector<T>();
  const auto sizes = summands.defined() ? summands.cast(DType::f64).to_vector<double>() : std::vector<double>(a.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    different += alike<T>(a[i], b[i], exact, std::isfinite(sizes[i]) ? std::abs(sizes[i]) : 0.0) ? 0 : 1;
  return different;
}

/// One entry of the table of kernels.
struct Entry {
  std::string_view name;
  ElementwiseCall call;
  std::size_t inputs;
  DType dtype;
  bool comparison;
  cuda_kernels::ElementwiseLauncher launcher;
};

template <class Operation, class Formula> constexpr bool compares() {
  if constexpr (Formula::inputs == 2 && std::is_same_v<typename Formula::Part, elementwise::Value>)
    return elementwise::is_comparison<Operation>;
  else
    return false;
}

template <class T> void add_entries(std::vector<Entry>& entries) {
  const cuda_kernels::ElementwiseLaunchers& launchers = cuda_kernels::elementwise_launchers<T>();
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    elementwise::for_each_formula<O, ComputedIn<T>>([&]<class F>(F) {
      const ElementwiseCall call = elementwise::make_call(O{}, F::Part::part);
      const auto part = static_cast<std::size_t>(call.part);
      entries.push_back({O::name, call, F::inputs, dtype_of<T>, compares<O, F>(), launchers[call.operation][part]});
    });
  });
}

void check_entry(const Entry& entry, RandomViews& views, std::int64_t limit) {
  static const std::set<std::string_view> kMathematics = {"exp",  "expm1", "log",     "log1p",   "logaddexp",
                                                          "tanh", "erf",   "sigmoid", "gelu",    "gelu_tanh",
                                                          "silu", "pow",   "elu",     "softplus"};
  const Shape shape = views.shape(5, 40);
  std::vector<Array> inputs;
  std::vector<const Array*> operands;
  for (std::size_t i = 0; i < entry.inputs; ++i) inputs.push_back(views.input(shape, entry.dtype));
  for (const Array& input : inputs) operands.push_back(&input);
  const Array expected = Array::empty(shape, entry.comparison ? DType::boolean : entry.dtype, cpu());
  const Array found = Array::empty(shape, expected.dtype(), cpu());
  backend_for(cpu()).elementwise(entry.call, inputs, expected);
  synchronize(cpu());
  const on_host::LentArrays lent(inputs, {found});
  for_each_batch(
      "test", found, operands, [&](const ElementBatch& batch) { entry.launcher(nullptr, entry.call, batch); }, limit);
  CAPTURE(entry.name);
  CAPTURE(to_string(shape));
  const std::size_t different = visit_dtype(expected.dtype(), [&]<class T>(std::type_identity<T>) {
    const bool cancels = entry.name == "gelu" || entry.name == "gelu_tanh";  // x or dy times what is 0 somewhere
    return differences<T>(found, expected, !kMathematics.contains(entry.name), cancels ? inputs.back() : Array());
  });
  CHECK(different == 0);
}

TEST_CASE("every elementwise kernel computes what the CPU does") {
  std::vector<Entry> entries;
  for (const DType dtype : kAllDTypes)
    visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
      if constexpr (!is_narrow(dtype_of<T>) || is_floating(dtype_of<T>)) add_entries<T>(entries);
    });
  CHECK(entries.size() > 100);
  RandomViews views(4);
  for (int round = 0; round < 6; ++round) {
    on_host::schedule.most_blocks = round % 2 == 0 ? ~0U : 1;
    for (const Entry& entry : entries) check_entry(entry, views, round % 3 == 0 ? 37 : INT32_MAX);
  }
  on_host::schedule.most_blocks = ~0U;
}

TEST_CASE("parameters of an operation reach its kernels") {
  const Array x = Array::from(std::vector<float>{-2, 4}, {2}, cpu());
  const Array y = Array::empty({2}, DType::f32, cpu());
  const ElementwiseCall call = elementwise::make_call(elementwise::LeakyRelu{0.25}, ElementwiseCall::Part::value);
  const Array* const inputs[] = {&x};
  const on_host::LentArrays lent({x}, {y});
  for_each_batch("test", y, inputs, [&](const ElementBatch& batch) {
    cuda_kernels::elementwise_launchers<float>()[call.operation][0](nullptr, call, batch);
  });
  CHECK(y.to_vector<float>() == std::vector<float>{-0.5F, 4});
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
