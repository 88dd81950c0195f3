// SPDX-License-Identifier: Apache-2.0
// What is composed of elementwise operations, and reductions, at the ends of f32's range.
#include <tutti/autodiff/operations/elementwise_operations.h>
#include <tutti/tests/autodiff/operations/range_ends.h>

#include <doctest/doctest.h>

#include <cmath>

namespace tutti {
namespace {

using range_ends::ErrorOf;
using range_ends::Exception;
using range_ends::numbers;
using range_ends::Operands;

struct Composed {
  const char* name;
  Tensor (*f)(const Tensor&);
};

TEST_CASE("composed operations of one operand at the ends of f32's range are those of f64") {
  const Composed all[] = {
      {"reciprocal", [](const Tensor& x) { return reciprocal(x); }},
      {"pow 3", [](const Tensor& x) { return pow(x, 3); }},
      {"pow -1", [](const Tensor& x) { return pow(x, -1); }},
      {"relu6", [](const Tensor& x) { return relu6(x); }},
      {"prelu", [](const Tensor& x) { return prelu(x, Tensor(0.25)); }},
      {"mish", [](const Tensor& x) { return mish(x); }},
      {"celu", [](const Tensor& x) { return celu(x, 0.5); }},
      {"selu", [](const Tensor& x) { return selu(x); }},
      {"softplus 2", [](const Tensor& x) { return softplus(x, 2.0); }},
      {"softsign", [](const Tensor& x) { return softsign(x); }},
      {"log_sigmoid", [](const Tensor& x) { return log_sigmoid(x); }},
      {"hard_sigmoid", [](const Tensor& x) { return hard_sigmoid(x); }},
      {"hard_shrink", [](const Tensor& x) { return hard_shrink(x); }},
      {"soft_shrink", [](const Tensor& x) { return soft_shrink(x); }},
      {"threshold", [](const Tensor& x) { return threshold(x, 0.5, 2.0); }},
      {"nan_to_num", [](const Tensor& x) { return nan_to_num(x, 0, 1, -1); }},
  };
  std::vector<Exception> exceptions{
      {"mish", "second", "a step on the way is twice as large as the operand",
       [](const Values& at, double, double) { return std::abs(at[0]) > range_ends::kLargest / 2; }}};
  const Values x = numbers();
  for (const Composed& each : all)
    range_ends::check(
        each.name, [&](const Operands& in) { return each.f(in[0]); }, {x}, {static_cast<std::int64_t>(x.size())}, true,
        ErrorOf::each, &exceptions);
  check_met(exceptions);
}

TEST_CASE("reductions of small and large f32 are those of f64") {
  const Composed all[] = {
      {"x / sum(x)", [](const Tensor& x) { return x / sum(x); }},
      {"norm", [](const Tensor& x) { return norm(x); }},
      {"norm of an axis", [](const Tensor& x) { return norm(x, {1}, true); }},
      {"x / norm(x)", [](const Tensor& x) { return x / norm(x, {1}, true); }},
      {"stddev", [](const Tensor& x) { return stddev(x); }},
      {"stddev of an axis", [](const Tensor& x) { return stddev(x, {0}, 0); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, {1}); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 1); }},
      {"mean", [](const Tensor& x) { return mean(x, {1}); }},
      {"prod", [](const Tensor& x) { return prod(x, {1}); }},
  };
  for (const double scale : {1e-38, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e37}) {
    const Values x{3 * scale, -1 * scale, 2.5 * scale, 0.5 * scale, 4 * scale, -2 * scale};
    CAPTURE(scale);
    for (const Composed& each : all) {
      // Factors, so that no gradients cancel that are the same for all elements.
      const auto weighted = [&](const Operands& in) {
        const Tensor y = each.f(in[0]);
        const Tensor factors = arange(1, y.size() + 1, 1, {.dtype = y.dtype(), .device = y.device()});
        return y * reshape(factors, y.shape());
      };
      range_ends::check(each.name, weighted, {x}, {2, 3}, false, ErrorOf::largest);
    }
  }
}

TEST_CASE("asinh: its slope in f16 up to the end of the range") {
  for (const double at : {0.5, 1.0, 3.0, 255.0, 300.0, -60000.0}) {
    const Tensor x(leaf({at}).array().cast(DType::f16), true);
    backward(sum(asinh(x)));
    CHECK(x.grad().cast(DType::f32).to_vector<float>()[0] == doctest::Approx(1 / std::sqrt(at * at + 1)).epsilon(3e-3));
  }
}

TEST_CASE("stddev: of too few elements it is NaN, and so is its gradient") {
  const Tensor x = leaf({2});
  const Tensor y = stddev(x);
  CHECK(std::isnan(y.item()));
  backward(y);
  CHECK(std::isnan(x.grad().item()));
}

TEST_CASE("lerp: exact at both ends, from 1e-30 to 1e30") {
  for (const double a : {1e-30, 1.1, -7e30})
    for (const double b : {3e-30, -0.3, 1e30}) {
      const Tensor from = leaf({a}).cast(DType::f32);
      const Tensor to = leaf({b}).cast(DType::f32);
      const float ends[] = {from.to_vector<float>()[0], to.to_vector<float>()[0]};
      for (const int end : {0, 1}) {
        CHECK(lerp(from, to, static_cast<double>(end)).to_vector<float>()[0] == ends[end]);
        CHECK(lerp(from, to, end).to_vector<float>()[0] == ends[end]);
        const Tensor weight = leaf({static_cast<double>(end)}).cast(DType::f32);
        CHECK(lerp(from, to, weight).to_vector<float>()[0] == ends[end]);
      }
    }
  CHECK(lerp(cast(index({2}, {1}), DType::u8), cast(index({6}, {1}), DType::u8), 2).item() == 10);
  CHECK(lerp(index({2, 3}, {2}), index({6, 9}, {2}), 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{6, 9});
}

}  // namespace
}  // namespace tutti
