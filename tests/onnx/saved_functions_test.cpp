// SPDX-License-Identifier: Apache-2.0
// Functions of tensors as files of ONNX: each file is compared when it is saved, and with another batch.
#include <tutti/autodiff/operations.h>
#include <tutti/onnx/save_onnx.h>
#include <tutti/tests/error_text.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/onnx/saved_model.h>

#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("save_onnx: views become Reshape, Slice and Transpose") {
  check_function([](const Tensor& x) { return relu(transpose(x)); });
  check_function([](const Tensor& x) { return relu(slice(x, 1, 1, 3)); });
  check_function([](const Tensor& x) { return relu(slice(x, -1, 0, 6, 2)); });
  check_function([](const Tensor& x) { return relu(slice(x, -1, 1, 6, 3)); });
  check_function([](const Tensor& x) { return relu(reshape(x, {-1, 2, 2, 6})); });
  check_function([](const Tensor& x) {
    return transpose(reshape(slice(x, -1, 2, 6), {x.length(0), 4, 2, 2}), 1, 2) * 2;
  });
  check_function([](const Tensor& x) { return flip(x, {1, 2}) + x; });
  check_function([](const Tensor& x) { return diagonal(x, 0, 1, 2) * 3; }, {3, 4, 4});
  check_function([](const Tensor& x) { return diagonal(transpose(x, 0, 2), 1, 0, 1) * 3; }, {3, 4, 4});
  check_function([](const Tensor& x) { return sum(x, {1}, true) * x + mean(x, {0}); });
  check_function([](const Tensor& x) { return x * static_cast<double>(2 * x.length(0)); });
  check_function([](const Tensor& x) { return broadcast_to(sum(x, {1}, true), x.shape()) + 0.0; });
}

namespace {

/// A view of a view of x, and so on, chosen by numbers of the seed.
Tensor some_view(const Tensor& x, unsigned seed) {
  std::mt19937 numbers(seed);
  const auto below = [&](std::int64_t count) {
    return static_cast<std::int64_t>(numbers() % static_cast<unsigned>(count));
  };
  Tensor y = x;
  for (int step = 0; step < 5; ++step) {
    const std::int64_t axis = below(y.dim());
    switch (below(6)) {
      case 0: y = transpose(y, axis, below(y.dim())); break;
      case 1: {
        const std::int64_t begin = below(y.length(axis));
        y = slice(y, axis, begin, begin + 1 + below(y.length(axis) - begin), 1 + below(3));
        break;
      }
      case 2: y = flip(y, {axis}); break;
      case 3: y = expand_dims(y, axis); break;
      case 4: y = reshape(y, y.size() % 2 == 0 ? Shape{2, y.size() / 2} : Shape{y.size()}); break;
      default: {
        Shape twice = y.shape();
        twice.insert(0, 2);
        y = broadcast_to(y, twice);
        break;
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("save_onnx: views of views, by chance") {
  const TemporaryFolder folder(folder_in_memory());
  Generator random(5);
  const Tensor x = normal({4, 6, 3, 5}, random);
  for (unsigned seed = 0; seed < 500; ++seed) {
    Computation model([&](const Tensor& input) { return some_view(input, seed) * 2; });
    const std::string error = error_of([&] {
      save_onnx(folder.file("model.onnx"), model, x, {.axes = {{"", "", "", ""}}});
    });
    CHECK_MESSAGE(error == "nothing", "seed ", seed, ": ", error);
    if (error != "nothing" || seed % 10 != 0) continue;
    const Inference inference;
    const Tensor other = normal(x.shape(), random);
    check_close(OnnxModel(folder.file("model.onnx"))(other), model(other));
  }
}

TEST_CASE("save_onnx: parts that are written become Concat and Pad") {
  check_function([](const Tensor& x) { return concatenate({x, sin(x), slice(x, 1, 0, 1)}, 1); });
  check_function([](const Tensor& x) { return stack({x, cos(x)}, 1); });
  check_function([](const Tensor& x) { return concatenate({x, x}, 0); });
  check_function([](const Tensor& x) { return pad(x, {{0, 0}, {1, 2}, {0, 3}}, 0.5); });
  check_function([](const Tensor& x) {
    Tensor y = x * 1;
    y[{all, 1}] = sum(x, {1});
    y[{all, range(2, 4), range(1, 3)}] = 5.0;
    return y;
  });
}

TEST_CASE("save_onnx: elementwise operations") {
  for (const Function& function : std::vector<Function>{
           [](const Tensor& x) { return gelu(x) + gelu_tanh(x) + silu(x) + softplus(x, 2.0) + mish(x); },
           [](const Tensor& x) { return elu(x, 0.7) + celu(x, 0.7) + selu(x) + leaky_relu(x, 0.2) + hard_swish(x); },
           [](const Tensor& x) { return expm1(x) + log1p(abs(x)) + log2(abs(x) + 1) + log10(abs(x) + 1) + exp2(x); },
           [](const Tensor& x) { return logaddexp(x, 2 * x) + logaddexp(x, x); },
           [](const Tensor& x) { return floor(x) + ceil(x) + round(x) + trunc(x) + sign(x) + rsqrt(abs(x) + 1); },
           [](const Tensor& x) {
             return remainder(x, 0.7 * cos(x)) + fmod(x, Tensor(0.7)) + floor_divide(x, Tensor(0.3));
           },
           [](const Tensor& x) {
             return where(x > 0, x, -x) + clip(x, -0.5, 0.5) + maximum(x, 0.1) - minimum(x, cos(x));
           },
           [](const Tensor& x) {
             return cast(x > 0, DType::f32) + cast(logical_and(x > 0, x < 1), DType::f32) + cast(x != x, DType::f32);
           },
           [](const Tensor& x) { return pow(abs(x), 1.5) + square(x) / (1 + sigmoid(x)) + erf(x) + tanh(x); }})
    check_function(function);
}

TEST_CASE("save_onnx: elementwise logarithms of powers are whole") {
  const TemporaryFolder folder;
  const Tensor powers = exp2(Tensor(Array::arange(24, DType::f32, cpu())));
  Computation model([](const Tensor& x) { return floor(log2(x)); });
  save_onnx(folder.file("model.onnx"), model, powers);
  const Inference inference;
  CHECK(OnnxModel(folder.file("model.onnx"))(powers).to_vector<float>() == floor(log2(powers)).to_vector<float>());
}

TEST_CASE("save_onnx: reductions, orders and indices") {
  for (const Function& function : std::vector<Function>{
           [](const Tensor& x) { return max(x, {1}) + min(x, {1}) + prod(x, {1}) + norm(x, {1}) + logsumexp(x, {1}); },
           [](const Tensor& x) { return softmax(x, 1) + log_softmax(x, 2) + cumsum(x, 1); },
           [](const Tensor& x) { return argmax(x, 1); }, [](const Tensor& x) { return sort(x, 2).values; },
           [](const Tensor& x) { return topk(x, 2, 2).values; },
           [](const Tensor& x) {
             return take(x, tensor({2, 0, 2}), 1);
           },
           [](const Tensor& x) { return gather(x, 2, argsort(x, 2)); }, [](const Tensor& x) { return var(x, {1}); },
           [](const Tensor& x) {
             return einsum("bij,bkj->bik", {x, x});
           }})
    check_function(function);
}

TEST_SUITE_END();
