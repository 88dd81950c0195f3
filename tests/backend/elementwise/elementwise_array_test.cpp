// SPDX-License-Identifier: Apache-2.0
// Every elementwise operation on arrays of all layouts, against its scalar formula and against itself.
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/operations.h>

#include <tutti/backend/error.h>

#include <tutti/testing/devices/elementwise_samples.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cstring>

namespace tutti {
namespace {

using namespace samples;
using Part = ElementwiseCall::Part;

template <class T> bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T> Array numbers(const Shape& shape, double first, double step) {
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(first + step * static_cast<double>(i % 977));  // positive, for roots and logarithms
  return Array::from(values, shape, test_device());
}

/// The same elements in other layouts: every second of a longer row, and a transposed matrix.
Array spaced(const Array& x) {
  Shape wide = x.shape();
  wide[wide.size() - 1] *= 2;
  Array storage = Array::zeros(wide, x.dtype(), x.device());
  Array view = storage.slice(-1, 0, wide.back(), 2);
  view.copy_from(x);
  return view;
}
Array turned(const Array& x) { return x.transpose().copy().transpose(); }

constexpr std::int64_t kLengths[] = {1, 2, 7, 8, 15, 16, 17, 31, 33, 100, 1023};

TEST_CASE_TEMPLATE("unary operations compute alike in every layout", T, float, double) {
  elementwise::UnaryOperations::for_each([]<class O>(std::type_identity<O>) {
    for (const std::int64_t length : kLengths) {
      const Array x = numbers<T>({3, length}, 0.01, 0.011);
      const Array y = apply(O{}, x);
      CAPTURE(O::name);
      CAPTURE(length);
      CHECK(same_bits(apply(O{}, spaced(x)).template to_vector<T>(), y.to_vector<T>()));
      CHECK(same_bits(apply(O{}, turned(x)).template to_vector<T>(), y.to_vector<T>()));
      CHECK(same_bits(apply(O{}, x.slice(1, length / 2, length)).template to_vector<T>(),
                      y.slice(1, length / 2, length).to_vector<T>()));
    }
    CHECK(apply(O{}, Array::empty({0, 3}, dtype_of<T>, test_device())).size() == 0);
    const Array scalar = apply(O{}, Array::full({}, 0.5, dtype_of<T>, test_device()));
    const double expected = O{}.value(0.5);
    const auto found = scalar.template item<double>();
    CHECK((found == doctest::Approx(expected).epsilon(1e-6) || (std::isnan(found) && std::isnan(expected))));
  });
}

TEST_CASE_TEMPLATE("binary operations compute alike in every layout", T, float, double) {
  elementwise::BinaryOperations::for_each([]<class O>(std::type_identity<O>) {
    if constexpr (takes_floating<O>)
      for (const std::int64_t length : kLengths) {
        const Array a = numbers<T>({3, length}, -2, 0.013);
        const Array row = numbers<T>({length}, 0.5, 0.031);
        const Array column = numbers<T>({3, 1}, -1.5, 0.7);
        const auto check = [&](const Array& b) {
          CAPTURE(O::name);
          const auto expected = apply(O{}, a, b.broadcast_to(a.shape()).copy()).template to_vector<T>();
          CHECK(same_bits(apply(O{}, a, b).template to_vector<T>(), expected));
          CHECK(same_bits(apply(O{}, spaced(a), b).template to_vector<T>(), expected));
          CHECK(same_bits(apply(O{}, turned(a), b).template to_vector<T>(), expected));
          const auto reversed = apply(O{}, b.broadcast_to(a.shape()).copy(), a).template to_vector<T>();
          CHECK(same_bits(apply(O{}, b, a).template to_vector<T>(), reversed));
        };
        check(row);
        check(column);
        check(Array::full({}, 1.25, dtype_of<T>, test_device()));
      }
  });
}

TEST_CASE("gradients on arrays follow the scalar formulas") {
  const std::vector<double> dy(kSmooth.size(), 1.5);
  const Shape shape{static_cast<std::int64_t>(kSmooth.size())};
  const Array upstream = Array::from(dy, shape, test_device());
  const Array x = Array::from(kSmooth, shape, test_device());
  const auto check = [](const char* name, const Array& found, std::size_t i, double expected) {
    CAPTURE(name);
    const double value = found.to_vector<double>()[i];
    CHECK((value == doctest::Approx(expected).epsilon(1e-12) || (std::isnan(value) && std::isnan(expected))));
  };
  elementwise::UnaryOperations::for_each([&]<class O>(std::type_identity<O>) {
    if constexpr (has_gradient_kernel<O>) {
      std::vector<Array> inputs;
      if (O::needs == Needs::inputs) inputs.push_back(x);
      if (O::needs == Needs::output) inputs.push_back(apply(O{}, x));
      inputs.push_back(upstream);
      const Array found = apply_gradient(O{}, Part::gradient, inputs);
      for (std::size_t i = 0; i < kSmooth.size(); ++i) check(O::name, found, i, gradient_of(O{}, kSmooth[i], 1.5));
    }
  });
  elementwise::BinaryOperations::for_each([&]<class O>(std::type_identity<O>) {
    if constexpr (takes_floating<O> && has_gradient_kernel<O>) {
      const Array b = Array::full(shape, 0.75, DType::f64, test_device());
      std::vector<Array> inputs;
      if (O::needs == Needs::inputs) inputs = {x, b};
      inputs.push_back(upstream);
      const Array lhs = apply_gradient(O{}, Part::gradient_lhs, inputs);
      const Array rhs = apply_gradient(O{}, Part::gradient_rhs, inputs);
      for (std::size_t i = 0; i < kSmooth.size(); ++i) {
        check(O::name, lhs, i, gradient_lhs_of(O{}, kSmooth[i], 0.75, 1.5));
        check(O::name, rhs, i, gradient_rhs_of(O{}, kSmooth[i], 0.75, 1.5));
      }
    }
  });
}

TEST_CASE("results do not depend on the number of threads" * doctest::test_suite("cpu")) {
  const Array x = numbers<float>({300, 401}, -4, 0.01);
  const Array row = numbers<float>({401}, 0.5, 0.03);
  const auto gelu = apply(elementwise::Gelu{}, x).to_vector<float>();
  const auto product = apply(elementwise::Multiply{}, x.transpose(), numbers<float>({300}, 1, 2)).to_vector<float>();
  for (const int threads : {2, 3}) {
    set_cpu_threads(cpu(), threads);
    CHECK(same_bits(apply(elementwise::Gelu{}, x).to_vector<float>(), gelu));
    CHECK(same_bits(apply(elementwise::Multiply{}, x.transpose(), numbers<float>({300}, 1, 2)).to_vector<float>(),
                    product));
  }
  set_cpu_threads(cpu(), 1);
}

TEST_CASE_TEMPLATE("integers on arrays", T, std::int32_t, std::int64_t) {
  const std::vector<T> edge = integers<T>();
  const auto count = static_cast<std::int64_t>(edge.size());
  const Array column = Array::from(edge, {count, 1}, test_device());
  const Array row = Array::from(edge, {1, count}, test_device());
  const auto check_all = [&]<class O>(std::type_identity<O>) {
    if constexpr (takes_integers<O>) {
      using Result = decltype(O{}.value(T(0), T(0)));
      const auto found = apply(O{}, column, row).template to_vector<Result>();
      for (std::size_t i = 0; i < edge.size(); ++i)
        for (std::size_t j = 0; j < edge.size(); ++j) {
          CAPTURE(O::name);
          CHECK(found[i * edge.size() + j] == O{}.value(edge[i], edge[j]));
        }
    }
  };
  elementwise::BinaryOperations::for_each(check_all);
  elementwise::Comparisons::for_each(check_all);
}

TEST_CASE_TEMPLATE("comparisons of floating types", T, float, double) {
  std::vector<T> values = special_floats<T>();
  for (const double x : kSmooth) values.push_back(static_cast<T>(x));
  const auto count = static_cast<std::int64_t>(values.size());
  elementwise::Comparisons::for_each([&]<class O>(std::type_identity<O>) {
    const auto found =
        apply(O{}, Array::from(values, {count, 1}, test_device()), Array::from(values, {count}, test_device()))
            .template to_vector<bool>();
    for (std::size_t i = 0; i < values.size(); ++i)
      for (std::size_t j = 0; j < values.size(); ++j) {
        CAPTURE(O::name);
        CHECK(found[i * values.size() + j] == O{}.value(values[i], values[j]));
      }
  });
}

TEST_CASE("bools are compared") {
  std::vector<bool> a;
  std::vector<bool> b;
  for (int i = 0; i < 150; ++i) {
    a.push_back(i % 2 == 0);
    b.push_back(i % 3 == 0);
  }
  const auto equal =
      apply(elementwise::Equal{}, Array::from(a, {150}, test_device()), Array::from(b, {150}, test_device()));
  const auto differ =
      apply(elementwise::NotEqual{}, Array::from(a, {150}, test_device()), Array::from(b, {150}, test_device()));
  for (std::size_t i = 0; i < 150; ++i) {
    CHECK(equal.to_vector<bool>()[i] == (a[i] == b[i]));
    CHECK(differ.to_vector<bool>()[i] == (a[i] != b[i]));
  }
}

TEST_CASE("parameters reach the kernel") {
  const Array x = numbers<float>({40}, -2, 0.1);
  CHECK(apply(elementwise::LeakyRelu{0.5}, x).to_vector<float>()[0] == -1.0F);
}

TEST_CASE_TEMPLATE("where chooses in every layout", T, float, double, std::int32_t, std::int64_t) {
  const Array a = numbers<T>({5, 300}, 0, 1);
  const Array b = numbers<T>({300}, 1000, 1);
  const Array mask = apply(elementwise::Less{}, a, Array::full({}, 500, dtype_of<T>, test_device()));
  const auto found = where(mask, a, b).template to_vector<T>();
  const auto first = a.to_vector<T>();
  const auto second = b.to_vector<T>();
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == (first[i] < T(500) ? first[i] : second[i % 300]));
  CHECK(same_bits(where(turned(mask), spaced(a), b).template to_vector<T>(), found));
  CHECK(where(Array::full({}, true, DType::boolean, test_device()), a, b).template to_vector<T>() == first);
}

TEST_CASE("casts truncate, saturate and give bools") {
  const float inf = std::numeric_limits<float>::infinity();
  const Array x = Array::from(std::vector<float>{-1.9F, 0.0F, 2.9F, 1e10F, -inf, std::nanf("")}, {6}, test_device());
  CHECK(x.cast(DType::i32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{-1, 0, 2, std::numeric_limits<std::int32_t>::max(),
                                  std::numeric_limits<std::int32_t>::lowest(), 0});
  CHECK(x.cast(DType::i64).to_vector<std::int64_t>()[3] == 10000000000);
  CHECK(x.cast(DType::boolean).to_vector<bool>() == std::vector<bool>{true, false, true, true, true, true});
  const Array wide = Array::from(std::vector<std::int64_t>{5, -3}, {2, 1}, test_device()).broadcast_to({2, 3});
  CHECK(wide.cast(DType::f64).to_vector<double>() == std::vector<double>{5, 5, 5, -3, -3, -3});
}

}  // namespace
}  // namespace tutti
