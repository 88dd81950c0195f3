// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/optim/muon.h>
#include <tutti/tests/optim/optimizer_checks.h>
#include <tutti/tests/test_devices.h>

#include <cmath>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b.front().size(), 0.0));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b.front().size(); ++j)
      for (std::size_t k = 0; k < b.size(); ++k) c[i][j] += a[i][k] * b[k][j];
  return c;
}
Matrix transposed(const Matrix& a) {
  Matrix t(a.front().size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < t.size(); ++j) t[j][i] = a[i][j];
  return t;
}
template <class F> void for_elements(Matrix& m, const F& f) {
  for (std::size_t i = 0; i < m.size(); ++i)
    for (std::size_t j = 0; j < m[i].size(); ++j) f(i, j, m[i][j]);
}

/// A matrix under Muon, as its authors write it, always by the product of rows.
struct MatrixMuon {
  double rate;
  MuonOptions options;
  Matrix values;
  Matrix buffer = Matrix(values.size(), std::vector<double>(values.front().size(), 0.0));

  Matrix orthogonal(Matrix x) const {
    const bool tall = x.size() > x.front().size();
    if (tall) x = transposed(x);
    double sum = 0;
    for_elements(x, [&](auto, auto, double& value) { sum += value * value; });
    for_elements(x, [&](auto, auto, double& value) { value /= std::max(std::sqrt(sum), options.epsilon); });
    for (int i = 0; i < options.iterations; ++i) {
      const Matrix gram = times(x, transposed(x));
      Matrix polynomial = times(gram, gram);
      for_elements(polynomial, [&](auto r, auto c, double& value) {
        value = options.coefficients[1] * gram[r][c] + options.coefficients[2] * value;
      });
      Matrix next = times(polynomial, x);
      for_elements(next, [&](auto r, auto c, double& value) { value += options.coefficients[0] * x[r][c]; });
      x = next;
    }
    return tall ? transposed(x) : x;
  }

  void step(const Matrix& gradient) {
    const auto rows = static_cast<double>(values.size());
    const auto columns = static_cast<double>(values.front().size());
    const double m = options.momentum;
    for_elements(buffer, [&](auto i, auto j, double& value) { value = m * value + (1 - m) * gradient[i][j]; });
    Matrix direction = buffer;
    if (options.nesterov)
      for_elements(direction, [&](auto i, auto j, double& value) { value = (1 - m) * gradient[i][j] + m * value; });
    const Matrix change = orthogonal(direction);
    const double scale = options.scale == MuonScale::original ? std::sqrt(std::max(1.0, rows / columns))
                                                              : 0.2 * std::sqrt(std::max(rows, columns));
    for_elements(values, [&](auto i, auto j, double& value) {
      value -= rate * (options.weight_decay * value + scale * change[i][j]);
    });
  }
};

Matrix matrix_of(const Tensor& tensor) {
  const auto flat = tensor.array().cast(DType::f64).to_vector<double>();
  const auto columns = static_cast<std::size_t>(tensor.length(1));
  Matrix matrix(static_cast<std::size_t>(tensor.length(0)));
  for (std::size_t i = 0; i < flat.size(); ++i) matrix[i / columns].push_back(flat[i]);
  return matrix;
}

void compare(const Shape& shape, DType dtype, const MuonOptions& options, double tolerance) {
  const Tensor p = matrix_parameter(shape, dtype);
  Muon optimizer({p}, 0.02, options);
  MatrixMuon reference{0.02, options, matrix_of(p)};
  for (int step = 0; step < 5; ++step) {
    step_with(optimizer, step);
    reference.step(matrix_of(p.grad()));
  }
  const Matrix found = matrix_of(p);
  double worst = 0;
  for_elements(reference.values,
               [&](auto i, auto j, double& value) { worst = std::max(worst, std::abs(value - found[i][j])); });
  CHECK(worst < tolerance);
}

const MuonOptions kCases[] = {{},
                              {.momentum = 0.8, .nesterov = false, .weight_decay = 0},
                              {.momentum = 0, .iterations = 2, .scale = MuonScale::match_rms_adamw}};

}  // namespace

TEST_CASE("Muon: steps against an independent implementation, for wide, tall and square matrices") {
  for (const MuonOptions& options : kCases)
    for (const Shape& shape : {Shape{3, 7}, Shape{7, 3}, Shape{5, 5}, Shape{1, 4}, Shape{4, 1}}) {
      compare(shape, DType::f64, options, 1e-11);
      compare(shape, DType::f32, options, 2e-4);
    }
}

// torch 2.15's Muon in f64, its iteration too, which it runs in bf16.
TEST_CASE("Muon: the values of torch.optim") {
  const auto check = [](const Shape& shape, const MuonOptions& options, const std::vector<double>& expected) {
    const Tensor p = matrix_parameter(shape, DType::f64);
    Muon optimizer({p}, 0.02, options);
    for (int step = 0; step < 10; ++step) step_with(optimizer, step);
    const auto values = p.to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-10));
  };
  check({2, 3}, {},
        {0.95578304478722, 0.495550510278439, -0.438297601336318, -0.951004704544617, -0.626392422307607,
         0.23622600238776});
  check({4, 2}, {.momentum = 0.8, .nesterov = false},
        {0.934068193205347, 0.458247016106667, -0.447544394045227, -0.96511420286569, -0.626404187126842,
         0.230272574775021, 0.974964032047342, 0.74084979629683});
  check({2, 2}, {.weight_decay = 0, .scale = MuonScale::match_rms_adamw},
        {0.988622727976015, 0.529175931005862, -0.42788568247922, -0.983299523829276});
}

TEST_CASE("Muon: a gradient of 0 moves nothing") {
  const Tensor p = matrix_parameter({2, 3}, DType::f32);
  const auto before = p.to_vector<float>();
  Muon optimizer({p}, 0.1, {.weight_decay = 0});
  p.gradient_slot().gradient = Array::zeros({2, 3}, DType::f32, test_device());
  p.gradient_slot().state = GradientState::accumulated;
  optimizer.step();
  CHECK(p.to_vector<float>() == before);
}

TEST_CASE("Muon: restarts bit by bit, takes empty parameters, and converges") {
  for (const MuonOptions& options : kCases) {
    check_restart<Muon>(options);
    check_empty<Muon>(options);
  }
  check_converges<Muon>(0.02, MuonOptions{.weight_decay = 0}, 300, 1e-2);
}

TEST_CASE("Muon: refuses what is no matrix, and options outside their range") {
  CHECK_THROWS_WITH_AS(Muon({matrix_parameter({2, 2}, DType::f32), matrix_parameter({4}, DType::f32)}, 0.1),
                       doctest::Contains("parameter 1 is [4]"), ShapeError);
  check_refused<Muon>(MuonOptions{.momentum = 1.0}, "[Muon] momentum");
  check_refused<Muon>(MuonOptions{.weight_decay = -1}, "[Muon] weight_decay");
  check_refused<Muon>(MuonOptions{.coefficients = {std::nan(""), 0, 0}}, "[Muon] the coefficients");
  check_refused<Muon>(MuonOptions{.epsilon = 0}, "[Muon] epsilon");
  check_refused<Muon>(MuonOptions{.iterations = 0}, "[Muon] iterations");
}
