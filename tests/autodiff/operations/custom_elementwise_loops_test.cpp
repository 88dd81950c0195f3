// SPDX-License-Identifier: Apache-2.0
// Loops of a program's structs beside the library's: every part of a block, masks, bits and bools.
#include <tutti/autodiff/custom_elementwise.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace tutti {

namespace {

using elementwise::Domain;
using elementwise::Needs;

struct Sum {
  static constexpr auto name = "sum_of_two";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> X value(const X& a, const X& b) const { return a + b; }
};

/// Python's %, by masks that are compared.
struct Wrapped {
  static constexpr auto name = "wrapped";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> X value(const X& a, const X& b) const {
    using namespace elementwise;
    const X left = fmod(a, b);
    const X moved = select((left < scalar<X>(0)) == (b < scalar<X>(0)), left, left + b);
    return select(left == scalar<X>(0), left, moved);
  }
};

struct Contains {
  static constexpr auto name = "contains";
  static constexpr auto domain = Domain::bits;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> auto value(const X& a, const X& b) const { return (a & b) == b; }
};

struct Added {
  static constexpr auto name = "added";
  static constexpr auto domain = Domain::any;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> X value(const X& a, const X& b) const { return a + b; }
};

Tensor numbers(std::int64_t count, std::int64_t factor, DType dtype) {
  const Tensor all(Array::arange(count, DType::i64, test_device()));
  return cast(remainder(all * factor, Tensor(std::int64_t{61})) - 30, dtype);
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.array().cast(DType::f64).to_vector<double>() == b.array().cast(DType::f64).to_vector<double>();
}

}  // namespace

TEST_CASE("custom elementwise: blocks of every length, operands that repeat or run backwards") {
  if (test_device().kind == DeviceKind::cpu) set_cpu_threads(test_device(), 3);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i8})
    for (const std::int64_t count : {1, 63, 64, 65, 255, 256, 257, 513, 40000}) {
      CAPTURE(to_string(dtype));
      CAPTURE(count);
      const Tensor a = numbers(count, 7, dtype);
      const Tensor b = numbers(count, 11, dtype);
      const Tensor one = numbers(1, 1, dtype);
      CHECK(same(elementwise_function(Sum{}, a, b), a + b));
      CHECK(same(elementwise_function(Sum{}, a, one), a + one));
      CHECK(same(elementwise_function(Sum{}, one, flip(b)), one + flip(b)));
    }
  if (test_device().kind == DeviceKind::cpu) set_cpu_threads(test_device(), 1);
}

TEST_CASE("custom elementwise: masks are compared, bits tested, and bools stay bools") {
  for (const DType dtype : {DType::f32, DType::i32, DType::i8}) {
    const Tensor a = numbers(300, 7, dtype);
    const Tensor b = numbers(300, 11, dtype) + cast(numbers(300, 11, dtype) == 0, dtype);
    CHECK(same(elementwise_function(Wrapped{}, a, b), remainder(a, b)));
  }
  const Tensor a = numbers(300, 7, DType::i32);
  const Tensor b = numbers(300, 11, DType::i32);
  CHECK(same(elementwise_function(Contains{}, a, b), (a & b) == b));
  if (test_device().kind != DeviceKind::cpu) return;
  const Tensor yes = a > 0;
  const Tensor sums = elementwise_function(Added{}, yes, yes);
  CHECK(sums.dtype() == DType::boolean);
  CHECK(same(sums, yes));
  CHECK(count_nonzero(sums).item<std::int64_t>() == count_nonzero(yes).item<std::int64_t>());
  CHECK(sum(cast(sums, DType::i64)).item<std::int64_t>() == count_nonzero(yes).item<std::int64_t>());
}

}  // namespace tutti
