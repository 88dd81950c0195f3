// SPDX-License-Identifier: Apache-2.0
// bf16, f16, i8 and u8: computed in f32 or i32, and narrowed once.
#include <tutti/backend/operations.h>

#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/testing/devices/elementwise_samples.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

TEST_SUITE_BEGIN("cpu");  // RandomViews makes arrays there

namespace tutti {
namespace {

using namespace samples;
using Part = ElementwiseCall::Part;

// But for the sign of NaN, which compilers choose where two of them meet.
bool same_bits(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Array x = a.contiguous();
  const Array y = b.contiguous();
  synchronize(cpu());
  if (x.size() == 0 || std::memcmp(x.raw_data(), y.raw_data(), x.bytes()) == 0) return true;
  if (!is_floating(x.dtype())) return false;
  const auto found = x.cast(DType::f64).to_vector<double>();
  const auto expected = y.cast(DType::f64).to_vector<double>();
  return std::ranges::equal(found, expected, [](double p, double q) {
    return (std::isnan(p) && std::isnan(q)) || std::memcmp(&p, &q, sizeof p) == 0;
  });
}

Array wide(const Array& x) { return x.cast(computed_in(x.dtype())); }

template <class T> Array all_of_one_byte() {
  std::vector<T> values(256);
  std::iota(values.begin(), values.end(), std::numeric_limits<T>::min());
  return Array::from(values, {256}, cpu());
}

TEST_CASE("promotion of narrow types") {
  CHECK(promote(DType::bf16, DType::f16) == DType::f32);
  CHECK(promote(DType::i8, DType::u8) == DType::i32);
  for (const DType narrow : {DType::bf16, DType::f16}) {
    for (const DType integer : {DType::boolean, DType::i8, DType::u8, DType::i32, DType::i64, narrow}) {
      CHECK(promote(narrow, integer) == narrow);
      CHECK(promote(integer, narrow) == narrow);
    }
    for (const DType floating : {DType::f32, DType::f64}) CHECK(promote(narrow, floating) == floating);
  }
  for (const DType narrow : {DType::i8, DType::u8})
    for (const DType other : {DType::i32, DType::i64, DType::f32, DType::f64}) CHECK(promote(other, narrow) == other);
  for (const DType a : kAllDTypes)
    for (const DType b : kAllDTypes) CHECK(promote(a, b) == promote(b, a));
}

TEST_CASE_TEMPLATE("16-bit numbers from f64 and integers are rounded once", T, BFloat16, Float16) {
  const double half_step = std::is_same_v<T, BFloat16> ? 0x1p-8 : 0x1p-11;
  const double tie = 1 + half_step;  // between 1 and the next number: to the even one, 1
  CHECK(static_cast<double>(T(tie)) == 1.0);
  CHECK(static_cast<double>(T(tie + 0x1p-40)) == 1 + 2 * half_step);  // f32 would forget that it is above
  CHECK(static_cast<double>(T(-tie - 0x1p-40)) == -1 - 2 * half_step);
  CHECK(static_cast<double>(T(1 + 3 * half_step - 0x1p-40)) == 1 + 2 * half_step);
  CHECK(std::isinf(static_cast<float>(T(1e300))));
  CHECK(std::isnan(static_cast<float>(T(std::nan("")))));
  CHECK(T(1e-300) == 0.0F);
  CHECK(std::signbit(static_cast<float>(T(-1e-300))));
  CHECK(T((1 << 24) + 1) == (std::is_same_v<T, BFloat16> ? 0x1p24F : std::numeric_limits<float>::infinity()));
  CHECK(T(true) == 1.0F);
  CHECK(T(1.0).below() < T(1.0));
  CHECK(T(0.0).below() < 0.0F);
  CHECK(T(-1.0).below() < T(-1.0));
}

TEST_CASE_TEMPLATE("narrow arrays are made, read and moved", T, BFloat16, Float16, std::int8_t, std::uint8_t) {
  const DType dtype = dtype_of<T>;
  const std::vector<T> values = Array::arange(100, dtype, cpu()).to_vector<T>();
  for (int i = 0; i < 100; ++i) CHECK(static_cast<int>(values[static_cast<std::size_t>(i)]) == i);
  const Array x = Array::from(values, {10, 10}, cpu());
  CHECK(x.bytes() == 100 * sizeof(T));
  CHECK(x.slice(0, 3, 4).slice(1, 7, 8).item<double>() == 37.0);
  CHECK(Array::full({}, 2.75, dtype, cpu()).item<float>() == (is_floating(dtype) ? 2.75F : 2.0F));
  CHECK(x.transpose().copy().to_vector<T>()[1] == T(10));
  CHECK(same_bits(x.transpose().copy().transpose(), x));
  CHECK(same_bits(x.to(cpu(1)).to(cpu()), x));
  Array spaced = Array::zeros({10, 20}, dtype, cpu()).slice(1, 0, 20, 2);
  spaced.copy_from(x);
  CHECK(same_bits(spaced, x));
  CHECK_THROWS_AS(x.to_vector<float>(), DTypeError);
}

TEST_CASE("casts of all pairs convert each element") {
  RandomViews views(3);
  for (int round = 0; round < 4; ++round)
    for (const DType from : kAllDTypes)
      for (const DType to : kAllDTypes) {
        CAPTURE(to_string(from));
        CAPTURE(to_string(to));
        const Array x = views.input(views.shape(3, 700), from);
        const Array y = x.cast(to);
        visit_dtype(from, [&]<class From>(std::type_identity<From>) {
          visit_dtype(to, [&]<class To>(std::type_identity<To>) {
            const std::vector<From> source = x.to_vector<From>();
            const std::vector<To> found = y.to_vector<To>();
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < source.size(); ++i) {
              const To want = convert<To>(static_cast<From>(source[i]));
              const To got = found[i];
              wrong += std::memcmp(&got, &want, sizeof(To)) == 0 || (want != want && got != got) ? 0 : 1;
            }
            CHECK(wrong == 0);
          });
        });
      }
}

TEST_CASE("floating point to 8 bits saturates, integers to 8 bits wrap") {
  CHECK(convert<std::uint8_t>(-0.5F) == 0);
  CHECK(convert<std::uint8_t>(-7.0) == 0);
  CHECK(convert<std::uint8_t>(255.9F) == 255);
  CHECK(convert<std::uint8_t>(1e9F) == 255);
  CHECK(convert<std::int8_t>(Float16(200.0F)) == 127);
  CHECK(convert<std::int8_t>(BFloat16(-1e30F)) == -128);
  CHECK(convert<std::int8_t>(std::nan("")) == 0);
  CHECK(convert<std::int8_t>(std::int32_t{200}) == -56);
  CHECK(convert<std::uint8_t>(std::int64_t{-1}) == 255);
  CHECK_FALSE(convert<bool>(BFloat16(-0.0F)));
}

template <class O> constexpr std::size_t values_read = is_binary<O> ? 2 : 1;

/// Whatever the views, each element is that of the wide type's operation, narrowed.
TEST_CASE("elementwise operations of narrow types compute in the wide one, on any views") {
  RandomViews views(11);
  const auto check = [&]<class O>(DType dtype, Part part, std::size_t inputs) {
    const Shape shape = views.shape(3, 1200);
    std::vector<Array> narrow;
    std::vector<Array> wider;
    for (std::size_t i = 0; i < inputs; ++i) {
      narrow.push_back(views.input(shape, dtype));
      wider.push_back(wide(narrow.back()));
    }
    CAPTURE(O::name);
    CAPTURE(to_string(dtype));
    CAPTURE(to_string(shape));
    if (part != Part::value) {
      CHECK(same_bits(apply_gradient(O{}, part, narrow), apply_gradient(O{}, part, wider).cast(dtype)));
    } else if constexpr (is_binary<O>) {
      const Array expected = apply(O{}, wider[0], wider[1]);
      CHECK(
          same_bits(apply(O{}, narrow[0], narrow[1]), elementwise::is_comparison<O> ? expected : expected.cast(dtype)));
    } else {
      CHECK(same_bits(apply(O{}, narrow[0]), apply(O{}, wider[0]).cast(dtype)));
    }
  };
  const auto check_all = [&]<class O>(std::type_identity<O>) {
    for (const DType dtype : {DType::bf16, DType::f16, DType::i8, DType::u8}) {
      if (!(is_floating(dtype) ? takes_floating<O> : takes_integers<O>)) continue;
      check.template operator()<O>(dtype, Part::value, values_read<O>);
      if constexpr (has_gradient_kernel<O>) {
        if (!is_floating(dtype)) continue;
        const std::size_t inputs = O::needs == Needs::nothing ? 1 : O::needs == Needs::output ? 2 : values_read<O> + 1;
        check.template operator()<O>(dtype, is_binary<O> ? Part::gradient_lhs : Part::gradient, inputs);
        if (is_binary<O>) check.template operator()<O>(dtype, Part::gradient_rhs, inputs);
      }
    }
  };
  for (int round = 0; round < 6; ++round) elementwise::AllOperations::for_each(check_all);
}

TEST_CASE_TEMPLATE("8-bit integers wrap, and division by zero gives 0", T, std::int8_t, std::uint8_t) {
  const Array all = all_of_one_byte<T>();
  const Array column = all.expand_dims(1);
  const auto check = [&]<class O>(std::type_identity<O>) {
    if constexpr (takes_integers<O> && !elementwise::is_comparison<O>) {
      const auto found = apply(O{}, column, all).template to_vector<T>();
      const auto values = all.template to_vector<T>();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < 256; ++i)
        for (std::size_t j = 0; j < 256; ++j)
          wrong +=
              found[i * 256 + j] == static_cast<T>(O{}.value(std::int64_t{values[i]}, std::int64_t{values[j]})) ? 0 : 1;
      CAPTURE(O::name);
      CHECK(wrong == 0);
    }
  };
  elementwise::BinaryOperations::for_each(check);
  const auto lowest = std::numeric_limits<T>::min();
  const Array x = Array::from(std::vector<T>{lowest, T(7)}, {2}, cpu());
  CHECK(apply(elementwise::Negate{}, x).template to_vector<T>() == std::vector<T>{lowest, static_cast<T>(-7)});
  CHECK(apply(elementwise::Abs{}, x).template to_vector<T>() == std::vector<T>{lowest, T(7)});
  CHECK(apply(elementwise::FloorDivide{}, x, Array::zeros({}, dtype_of<T>, cpu())).template to_vector<T>() ==
        std::vector<T>{0, 0});
  CHECK_THROWS_WITH_AS(apply(elementwise::Exp{}, x), doctest::Contains("[exp]"), DTypeError);
}

TEST_CASE("narrow elementwise operations in place, and on threads") {
  const Array x = Generator(4).normal({301, 401}, DType::bf16, cpu());
  const Array doubled = apply(elementwise::Add{}, x, x);
  for (const int threads : {1, 3}) {
    set_cpu_threads(cpu(), threads);
    const Array sum = x.copy();
    const Array inputs[] = {sum, x};
    backend_for(cpu()).elementwise(make_call(elementwise::Add{}, Part::value), inputs, sum);
    CHECK(same_bits(sum, doubled));
    CHECK(same_bits(apply(elementwise::Gelu{}, x.transpose()).transpose(), apply(elementwise::Gelu{}, x)));
  }
  set_cpu_threads(cpu(), 1);
}

TEST_CASE("narrow elements are chosen and gathered") {
  RandomViews views(13);
  for (const DType dtype : {DType::bf16, DType::f16, DType::i8, DType::u8})
    for (int round = 0; round < 5; ++round) {
      const Shape shape = views.shape(3, 300);
      const Array mask = views.input(shape, DType::boolean);
      const Array a = views.input(shape, dtype);
      const Array b = views.input(shape, dtype);
      CHECK(same_bits(where(mask, a, b), where(mask, wide(a), wide(b)).cast(dtype)));
      if (shape.empty()) continue;
      const Array index = Array::full(shape, shape.back() - 1, DType::i64, cpu());
      CHECK(same_bits(gather(a, -1, index), a.slice(-1, shape.back() - 1, shape.back()).broadcast_to(shape).copy()));
    }
}

// Each result against f64, within the one rounding and what f32 loses.
struct Close {
  DType dtype;
  void operator()(const char* name, const Array& found, const Array& expected) const {
    CAPTURE(name);
    CAPTURE(to_string(dtype));
    REQUIRE(found.dtype() == dtype);
    REQUIRE(found.shape() == expected.shape());
    const double epsilon = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    const auto got = found.cast(DType::f64).to_vector<double>();
    const auto want = expected.to_vector<double>();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      wrong += std::abs(got[i] - want[i]) <= std::abs(want[i]) * epsilon * 1.001 + 1e-5 ? 0 : 1;
    CHECK(wrong == 0);
  }
};

TEST_CASE("reductions, softmax and matmul of 16-bit numbers round once") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Close close{dtype};
    const Array x = Generator(5).normal({37, 501}, dtype, cpu());
    const Array y = Generator(6).normal({501, 19}, dtype, cpu());
    const Array x64 = x.cast(DType::f64);
    const Array y64 = y.cast(DType::f64);
    for (const Reduction kind : {Reduction::sum, Reduction::sum_of_squares, Reduction::max, Reduction::min})
      for (const std::int64_t axis : {0, 1}) {
        const std::int64_t axes[] = {axis};
        close("reduce", reduce(kind, x, axes), reduce(kind, x64, axes));
      }
    close("sum_to", sum_to(x, {501}), sum_to(x64, {501}));
    CHECK(same_bits(arg_reduce(ArgReduction::arg_max, x, 1), arg_reduce(ArgReduction::arg_max, x64, 1)));
    close("matmul", matmul(x, y), matmul(x64, y64));
    close("matmul of transposed", matmul(y.transpose(), x.transpose()), matmul(y64.transpose(), x64.transpose()));
    const Array place = Array::zeros({37, 19}, dtype, cpu());
    CHECK(matmul(x, y, place).raw_data() == place.raw_data());
    close("matmul in place", place, matmul(x64, y64));
    for (const SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
      close("softmax", softmax(kind, x, 1), softmax(kind, x64, 1));
      close("softmax_gradient", softmax_gradient(kind, softmax(kind, x, 0), x, 0),
            softmax_gradient(kind, softmax(kind, x, 0).cast(DType::f64), x64, 0));
    }
  }
  const Array ones = Array::full({5000}, 1, DType::bf16, cpu());
  CHECK(sum(ones).item<double>() == 4992);  // 5000, rounded; sums in bf16 would stop at 256
  CHECK(reduce(Reduction::max, all_of_one_byte<std::int8_t>(), {}).item<int>() == 127);
  CHECK(sum(Array::full({3}, 100, DType::u8, cpu())).item<std::int64_t>() == 300 % 256);
}

TEST_CASE("images and scattered rows of 16-bit numbers round once") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Close close{dtype};
    const Conv2dGeometry geometry{{2, 1}, {1, 1}, {1, 1}};
    const Array x = Generator(5).normal({2, 3, 9, 8}, dtype, cpu());
    const Array w = Generator(6).normal({4, 3, 3, 3}, dtype, cpu());
    const Array x64 = x.cast(DType::f64);
    const Array w64 = w.cast(DType::f64);
    const Array y = conv2d(geometry, x, w);
    close("conv2d", y, conv2d(geometry, x64, w64));
    const Array y64 = y.cast(DType::f64);
    close("input gradient", conv2d_input_gradient(geometry, y, w, x.shape()),
          conv2d_input_gradient(geometry, y64, w64, x.shape()));
    close("weight gradient", conv2d_weight_gradient(geometry, y, x, w.shape()),
          conv2d_weight_gradient(geometry, y64, x64, w.shape()));
    close("avg_pool2d", avg_pool2d({}, x), avg_pool2d({}, x64));
    close("avg_pool2d_gradient", avg_pool2d_gradient({}, avg_pool2d({}, x), x.shape()),
          avg_pool2d_gradient({}, avg_pool2d({}, x64), x64.shape()));
    const auto [maxima, places] = max_pool2d({}, x);
    const auto [maxima64, places64] = max_pool2d({}, x64);
    close("max_pool2d", maxima, maxima64);
    CHECK(same_bits(places, places64));
    close("max_pool2d_gradient", max_pool2d_gradient({}, maxima, places, x.shape()),
          max_pool2d_gradient({}, maxima64, places64, x.shape()));
    const Array index = Array::zeros({400, 2}, DType::i64, cpu());
    const Array updates = Generator(7).uniform({400, 2}, dtype, cpu());
    close("scatter_add", scatter_add({3, 2}, updates, 0, index),
          scatter_add({3, 2}, updates.cast(DType::f64), 0, index));
  }
}

TEST_CASE("random 16-bit numbers are those of f32, rounded, and stay below the end") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Array x = Generator(9).uniform({20000}, dtype, cpu(), 1.0, 3.0).cast(DType::f64);
    CHECK(reduce(Reduction::max, x, {}).item<double>() < 3.0);
    CHECK(reduce(Reduction::min, x, {}).item<double>() >= 1.0);
    CHECK(sum(x).item<double>() / 20000 == doctest::Approx(2.0).epsilon(0.01));
    CHECK(Generator(9).uniform({}, dtype, cpu(), 2.0, 2.0).item<double>() == 2.0);
    CHECK(same_bits(Generator(9).normal({77}, dtype, cpu()), Generator(9).normal({77}, DType::f32, cpu()).cast(dtype)));
  }
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
