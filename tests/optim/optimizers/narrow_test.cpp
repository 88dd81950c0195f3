// SPDX-License-Identifier: Apache-2.0
// Parameters of bf16 and f16: state and arithmetic are f32's, and each step rounds the parameter once.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/random.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>

using namespace tutti;

namespace {

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)>;

const Make kOptimizers[] = {
    [](std::vector<Tensor> p) { return std::make_unique<Sgd>(std::move(p), 0.1); },
    [](std::vector<Tensor> p) {
      return std::make_unique<Sgd>(std::move(p), 0.1, SgdOptions{.momentum = 0.9, .weight_decay = 0.01});
    },
    [](std::vector<Tensor> p) { return std::make_unique<AdamW>(std::move(p), 0.01); },
};

void give_gradient(const Tensor& parameter, int step) {
  GradientSlot& slot = parameter.gradient_slot();
  const auto seed = static_cast<std::uint64_t>(step);
  slot.gradient = Generator(seed).normal(parameter.shape(), DType::bf16, test_device()).cast(parameter.dtype());
  slot.state = GradientState::accumulated;
}

std::vector<double> values(const Array& array) { return array.cast(DType::f64).to_vector<double>(); }

}  // namespace

TEST_CASE("optimizers: 16-bit parameters take the steps of f32, each rounded once") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const Make& make : kOptimizers) {
      const Tensor narrow(Generator(1).normal({1001}, dtype, test_device()), true);
      Tensor wide(narrow.array().cast(DType::f32), true);
      const auto optimizer = make({narrow});
      const auto reference = make({wide});
      for (int step = 0; step < 4; ++step) {
        give_gradient(narrow, step);
        give_gradient(wide, step);
        if (dtype == DType::f16) wide.gradient_slot().gradient = narrow.grad().array().cast(DType::f32);
        optimizer->step();
        reference->step();
        const Array rounded = wide.array().cast(dtype);
        CHECK(values(narrow.array()) == values(rounded));
        Array(wide.array()).copy_from(rounded.cast(DType::f32));
      }
      const Optimizer::State state = optimizer->state();
      for (std::size_t i = 0; i < state.parameters[0].arrays.size(); ++i) {
        const Array& array = state.parameters[0].arrays[i].second;
        CHECK(array.dtype() == DType::f32);
        CHECK(values(array) == values(reference->state().parameters[0].arrays[i].second));
      }
      make({narrow})->load_state(state);
      if (!state.parameters[0].arrays.empty()) {
        Optimizer::State wrong = state;
        for (auto& [name, array] : wrong.parameters[0].arrays) array = array.cast(dtype);
        CHECK_THROWS_AS(make({narrow})->load_state(wrong), DTypeError);
      }
    }
}

TEST_CASE("optimizers: rows of a 16-bit table") {
  Tensor table(Array::zeros({3, 2}, DType::bf16, test_device()), true);
  table.set_sparse_grad(true);
  const Tensor index(Array::from(std::vector<std::int64_t>{2, 0, 2}, {3}, test_device()));
  backward(sum(embedding(table, index)));
  Sgd({table}, 0.5).step();
  CHECK(values(table.array()) == std::vector<double>{-0.5, -0.5, 0, 0, -1, -1});
}

TEST_CASE("clip_grad_norm: squares of f16 neither overflow nor vanish") {
  const Tensor large(Array::zeros({4}, DType::f16, test_device()), true);
  Tensor small(Array::zeros({4}, DType::f16, test_device()), true);
  backward(sum(large * 30000.0) + sum(small * 0.0001));
  const Tensor parameters[] = {large, small};
  const double norm = clip_grad_norm(parameters, 1.0);
  CHECK(norm == doctest::Approx(60000.0).epsilon(1e-3));
  CHECK(values(large.grad().array())[0] == doctest::Approx(0.5).epsilon(1e-2));
  const Tensor alone[] = {small};
  small.zero_grad();
  backward(sum(small * 0.0001));
  CHECK(clip_grad_norm(alone, 1.0) == doctest::Approx(2e-4).epsilon(1e-2));
}
