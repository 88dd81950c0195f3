// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every optimizer has to do, whatever its formula.

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/optimizer.h>
#include <tutti/tests/optim/reference.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tutti::testing {

inline Tensor matrix_parameter(const Shape& shape, DType dtype, double phase = 0) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::cos(static_cast<double>(i) + phase);
  return Tensor(Array::from(values, shape, test_device()).cast(dtype).copy(), true);
}

/// One step with made-up gradients.
inline void step_with(Optimizer& optimizer, int step) {
  for (const Tensor& parameter : optimizer.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(parameter.size()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = gradient_at(step, i * i);
    GradientSlot& slot = parameter.gradient_slot();
    slot.gradient = Array::from(values, parameter.shape(), test_device()).cast(parameter.dtype()).copy();
    slot.state = GradientState::accumulated;
  }
  optimizer.step();
}

/// Saved after some steps and loaded into another, it goes on bit by bit.
template <class Made, class Options> void check_restart(const Options& options, const Shape& shape = {3, 5}) {
  const Tensor p = matrix_parameter(shape, DType::f32);
  Made optimizer({p}, 0.01, options);
  for (int step = 0; step < 3; ++step) step_with(optimizer, step);
  const Tensor q(p.array().copy(), true);
  Made restarted({q}, 1.0, options);
  restarted.load_state(optimizer.state());
  for (int step = 3; step < 6; ++step) {
    step_with(optimizer, step);
    step_with(restarted, step);
  }
  CHECK(p.to_vector<float>() == q.to_vector<float>());
  CHECK(restarted.steps() == 6);
}

/// Mean of (p - target)^2, from about 1 down below `loss`.
template <class Made, class Options> void check_converges(double rate, const Options& options, int steps, double loss) {
  const Tensor p = matrix_parameter({4, 3}, DType::f32);
  const Tensor target(matrix_parameter({4, 3}, DType::f32, 2.0).array());
  Made optimizer({p}, rate, options);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    backward(mean(square(p - target)));
    optimizer.step();
  }
  CHECK(mean(square(p - target)).template item<double>() < loss);
}

/// A parameter without elements is stepped like others, and one without a gradient left alone.
template <class Made, class Options> void check_empty(const Options& options) {
  const Tensor none = matrix_parameter({0, 3}, DType::f32);
  const Tensor also = matrix_parameter({2, 2}, DType::f32);
  Made optimizer({none, also}, 0.1, options);
  step_with(optimizer, 1);
  CHECK(optimizer.state().parameters[0].steps == 1);
  optimizer.zero_grad();
  const auto before = also.to_vector<float>();
  optimizer.step();
  CHECK(also.to_vector<float>() == before);
}

template <class Made, class Options> void check_refused(const Options& options, const std::string& option) {
  const Tensor p = matrix_parameter({2, 2}, DType::f32);
  CHECK_THROWS_WITH_AS(Made({p}, 0.1, options), doctest::Contains(option.c_str()), Error);
}

/// Against four values after ten steps of `gradient_at`, from torch 2.15 in f64.
template <class Made, class Options>
void check_torch(double rate, const Options& options, const std::vector<double>& expected) {
  const Tensor p = make_parameter<double>({std::cos(0.0), std::cos(1.0), std::cos(2.0), std::cos(3.0)});
  Made optimizer({p}, rate, options);
  for (int step = 0; step < 10; ++step) {
    set_gradient<double>(p, {gradient_at(step, 0), gradient_at(step, 1), gradient_at(step, 2), gradient_at(step, 3)});
    optimizer.step();
  }
  const auto values = p.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-12));
}

/// A table [4, 2] of 1 to 8, three sparse steps at 0.1, against what torch 2.15 gives.
template <class Made, class Options> void check_sparse(const Options& options, const std::vector<double>& expected) {
  const Tensor table(Array::from(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}, test_device()), true);
  Tensor(table).set_sparse_grad(true);
  Made optimizer({table}, 0.1, options);
  for (const std::vector<std::int64_t>& read : {std::vector<std::int64_t>{1, 3}, {1, 2}, {3, 1}}) {
    const Tensor factors(Array::from(std::vector<double>{3, 4, 5, -6}, {2, 2}, test_device()));
    optimizer.zero_grad();
    backward(sum(embedding(table, Tensor(Array::from(read, {2}, test_device()))) * factors));
    optimizer.step();
  }
  const auto values = table.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-7));
}

}  // namespace tutti::testing
