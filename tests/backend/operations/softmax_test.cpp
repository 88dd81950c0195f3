// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace tutti {
namespace {

template <class T> Array numbers(const Shape& shape) {
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(std::sin(static_cast<double>(i * i)) * 5);
  return Array::from(values, shape, test_device());
}

/// Lines of the middle axis of [outer, length, inner], in double.
template <class T> struct Lines {
  std::vector<T> values;
  std::size_t length;
  std::size_t inner;

  Lines(const Array& x, std::size_t n, std::size_t i) : values(x.to_vector<T>()), length(n), inner(i) {}
  std::size_t count() const { return values.size() / length; }
  double at(std::size_t line, std::size_t i) const {
    return static_cast<double>(values[(line / inner * length + i) * inner + line % inner]);
  }
};

template <class T> void check(const Shape& shape, std::int64_t axis, std::size_t length, std::size_t inner) {
  const double tolerance = std::is_same_v<T, float> ? 1e-6 : 1e-14;
  const Array x = numbers<T>(shape);
  const Array dy = numbers<T>(shape);
  const Lines<T> in(x, length, inner);
  const Lines<T> upstream(dy, length, inner);
  for (const SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
    const Array y = softmax(kind, x, axis);
    const Lines<T> out(y, length, inner);
    const Lines<T> dx(softmax_gradient(kind, y, dy, axis), length, inner);
    for (std::size_t line = 0; line < in.count(); ++line) {
      double total = 0;
      for (std::size_t i = 0; i < length; ++i) total += std::exp(in.at(line, i));
      double weighted = 0;
      double plain = 0;
      for (std::size_t i = 0; i < length; ++i) {
        weighted += upstream.at(line, i) * std::exp(in.at(line, i)) / total;
        plain += upstream.at(line, i);
      }
      for (std::size_t i = 0; i < length; ++i) {
        const double p = std::exp(in.at(line, i)) / total;
        const bool is_log = kind == SoftmaxKind::log_softmax;
        CHECK(std::abs(out.at(line, i) - (is_log ? std::log(p) : p)) <= tolerance * (is_log ? 20 : 1));
        const double gradient = is_log ? upstream.at(line, i) - p * plain : p * (upstream.at(line, i) - weighted);
        CHECK(std::abs(dx.at(line, i) - gradient) <= tolerance * (20 + std::abs(plain)));
      }
    }
  }
}

TEST_CASE_TEMPLATE("softmax along any axis agrees with the formula", T, float, double) {
  for (const std::size_t length : {1, 2, 10, 16, 17, 100, 1000}) {
    const auto n = static_cast<std::int64_t>(length);
    check<T>({5, n}, -1, length, 1);
    check<T>({2, n, 3}, 1, length, 3);
    check<T>({n, 4}, 0, length, 4);
  }
}

TEST_CASE("softmax of large and infinite numbers stays finite") {
  const float inf = std::numeric_limits<float>::infinity();
  const Array x = Array::from(std::vector<float>{1000, 1000, -1000, -inf}, {4}, test_device());
  CHECK(softmax(SoftmaxKind::softmax, x, 0).to_vector<float>() == std::vector<float>{0.5, 0.5, 0, 0});
  const auto logs = softmax(SoftmaxKind::log_softmax, x, 0).to_vector<float>();
  CHECK(logs[0] == doctest::Approx(-std::log(2.0)));
  CHECK(logs[2] == doctest::Approx(-2000.7).epsilon(1e-3));
  CHECK(logs[3] == -inf);
}

TEST_CASE("softmax does not depend on the number of threads" * doctest::test_suite("cpu")) {
  const Array x = numbers<float>({3000, 37});
  const auto expected = softmax(SoftmaxKind::softmax, x, 1).to_vector<float>();
  set_cpu_threads(cpu(), 3);
  CHECK(softmax(SoftmaxKind::softmax, x, 1).to_vector<float>() == expected);
  set_cpu_threads(cpu(), 1);
}

}  // namespace
}  // namespace tutti
