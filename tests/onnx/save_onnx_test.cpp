// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/save_onnx.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/attention.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/conv_transpose.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/normalization.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/recurrent.h>
#include <tutti/nn/sequential.h>
#include <tutti/nn/transformer.h>
#include <tutti/onnx/onnx_model.h>
#include <tutti/tests/error_text.h>
#include <tutti/tests/exchange/temporary_folder.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using Function = std::function<Tensor(const Tensor&)>;

/// A model of one function, without members.
struct Computation : Layer {
  explicit Computation(Function function) : function_(std::move(function)) {}
  Tensor compute(const Tensor& x) const override { return function_(x); }
  void visit(MemberVisitor&) override {}
  Function function_;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void check_close(const Tensor& found, const Tensor& expected) {
  REQUIRE(found.shape() == expected.shape());
  REQUIRE(found.dtype() == expected.dtype());
  const auto values = [](const Tensor& x) { return x.array().cast(DType::f64).to_vector<double>(); };
  const std::vector<double> a = values(found);
  const std::vector<double> b = values(expected);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4).scale(1.0));
}

/// Saves the model, and runs the file with inputs of another batch.
OnnxModel check_saved(Layer& model, const Tensor& example, const Tensor& other, const OnnxSaving& saving = {}) {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.onnx");
  save_onnx(path, model, example, saving);
  OnnxModel file(path);
  const Inference inference;
  check_close(file(other), model(other));
  return file;
}

void check_function(const Function& function, const Shape& shape = {3, 4, 6}) {
  Computation model(function);
  Generator random(1);
  Shape other = shape;
  other[0] = 7;
  check_saved(model, normal(shape, random), normal(other, random));
}

std::string error_of_saving(const Function& function, const Shape& shape = {3, 4}, const OnnxSaving& saving = {}) {
  const TemporaryFolder folder;
  Computation model(function);
  Generator random(1);
  const Tensor example = normal(shape, random);
  const std::string error = error_of([&] { save_onnx(folder.file("model.onnx"), model, example, saving); });
  CHECK(std::filesystem::is_empty(folder.path()));
  return error;
}

}  // namespace

TEST_CASE("save_onnx: a multilayer perceptron has its names, and any batch") {
  Generator random(1);
  Sequential model(Linear(5, 8, random), ReLU(), Linear(8, 3, random));
  const OnnxModel file = check_saved(model, normal({2, 5}, random), normal({9, 5}, random));
  CHECK(*file.inputs()[0].shape == std::vector<std::string>{"batch", "5"});
  CHECK(*file.outputs()[0].shape == std::vector<std::string>{"batch", "3"});
  CHECK(file.inputs()[0].name == "input");
  OnnxModel copy = file;
  std::vector<std::string> names;
  for (const auto& [name, parameter] : copy.named_parameters()) names.push_back(name);
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"0.bias", "0.weight", "2.bias", "2.weight"});
}

TEST_CASE("save_onnx: convolutions, their norms and pools") {
  Generator random(1);
  Sequential model(Conv2d(1, 4, 3, random, {.padding = 1}), BatchNorm(4), ReLU(), MaxPool2d(2), Conv2d(4, 6, 3, random),
                   AvgPool2d(2), Flatten(), Linear(6, 5, random));
  model.eval();
  check_saved(model, normal({2, 1, 10, 10}, random), normal({5, 1, 10, 10}, random));
}

TEST_CASE("save_onnx: a transposed convolution") {
  Generator random(1);
  Sequential model(ConvTranspose2d(3, 4, 3, random, {.stride = 2, .padding = 1, .output_padding = 1}));
  check_saved(model, normal({2, 3, 5, 6}, random), normal({4, 3, 5, 6}, random));
}

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
      save_onnx(folder.file("model.onnx"), model, x, {.axes = {{{"", "", "", ""}}}});
    });
    CHECK_MESSAGE(error == "nothing", "seed ", seed, ": ", error);
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

TEST_CASE("save_onnx: a transformer, of any batch and any length") {
  Generator random(1);
  struct Model : Layer {
    Embedding tokens;
    TransformerBlock first, second;
    LayerNorm norm;
    Linear head;
    explicit Model(Generator& random)
        : tokens(11, 16, random), first(16, 4, random), second(16, 4, random), norm({16}), head(16, 11, random) {}
    Tensor compute(const Tensor& x) const override {
      Tensor y = tokens(x);
      y = second(first(y, Tensor()), Tensor());
      return head(norm(y));
    }
    void visit(MemberVisitor& v) override {
      v.module("tokens", tokens);
      v.module("first", first);
      v.module("second", second);
      v.module("norm", norm);
      v.module("head", head);
    }
  };
  Model model(random);
  model.eval();
  const auto ids = [&](std::int64_t batch, std::int64_t length) {
    return remainder(reshape(Tensor(Array::arange(batch * length, DType::i64, cpu())), {batch, length}) * 7,
                     Tensor(11));
  };
  const OnnxModel file = check_saved(model, ids(3, 8), ids(5, 12), {.axes = {{{"batch", "length"}}}});
  CHECK(*file.outputs()[0].shape == std::vector<std::string>{"batch", "length", "11"});
}

TEST_CASE("save_onnx: images of any size, unless a number is rounded; models with a longest length") {
  Generator random(1);
  Sequential strided(Conv2d(1, 2, 3, random, {.stride = 2, .padding = 1}), ReLU());
  const OnnxSaving any_size{.axes = {{{"batch", "", "height", "width"}}}};
  const Tensor image = normal({2, 1, 16, 16}, random);
  Computation averaged([&](const Tensor& x) { return mean(strided(x), {2, 3}); });
  check_saved(averaged, image, normal({3, 1, 9, 22}, random), any_size);
  Computation flat([&](const Tensor& x) { return reshape(strided(x), {x.length(0), -1}); });
  const TemporaryFolder folder;
  CHECK(contains(error_of([&] { save_onnx(folder.file("model.onnx"), flat, image, any_size); }), "OnnxSaving::axes"));

  const Tensor table = normal({10, 4}, random);
  Computation positions([&](const Tensor& x) { return x + table.slice(0, 0, x.length(1)); });
  check_saved(positions, normal({2, 10, 4}, random), normal({3, 7, 4}, random), {.axes = {{{"batch", "length", ""}}}});
}

TEST_CASE("save_onnx: recurrent networks are unrolled") {
  struct Model : Layer {
    LSTM lstm;
    GRU gru;
    explicit Model(Generator& random)
        : lstm(4, 6, random, {.batch_first = true}),
          gru(6, 5, random, {.layers = 2, .bidirectional = true, .batch_first = true}) {}
    Tensor compute(const Tensor& x) const override { return gru(lstm(x).sequence).sequence; }
    void visit(MemberVisitor& v) override {
      v.module("lstm", lstm);
      v.module("gru", gru);
    }
  };
  Generator random(1);
  Model model(random);
  model.eval();
  check_saved(model, normal({2, 5, 4}, random), normal({3, 5, 4}, random));
  const TemporaryFolder folder;
  const Tensor example = normal({2, 5, 4}, random);
  const std::string error = error_of([&] {
    save_onnx(folder.file("model.onnx"), model, example, {.axes = {{{"batch", "time", ""}}}});
  });
  CHECK(contains(error, "OnnxSaving::axes"));
}

TEST_CASE("save_onnx: several threads at a time, and none within a captured step") {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  std::vector<std::string> errors(3);
  for (std::size_t i = 0; i < errors.size(); ++i)
    threads.emplace_back([&, i] {
      errors[i] = error_of([&] {
        Generator random(i);
        Linear model(4, 3, random);
        save_onnx(folder.file(std::to_string(i)), model, normal({2, 4}, random));
        const Tensor x = normal({3, 4}, random);
        const Inference inference;
        if (OnnxModel(folder.file(std::to_string(i)))(x).to_vector<float>() != model(x).to_vector<float>())
          throw Error("another model");
      });
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) CHECK(error == "nothing");

  Generator random(1);
  Linear model(4, 3, random);
  const Tensor example = normal({2, 4}, random);
  Capture capture(cpu());
  const CaptureScope scope(capture);
  CHECK_THROWS_AS(save_onnx(folder.file("captured"), model, example), CaptureError);
}

TEST_CASE("save_onnx: a model that was read is saved again") {
  Generator random(1);
  Sequential model(Linear(4, 6, random), Tanh(), LayerNorm({6}));
  Computation rows([&](const Tensor& x) { return concatenate({model(x), slice(x, -1, 0, 1)}, -1); });
  const TemporaryFolder folder;
  const OnnxSaving saving{.axes = {{{"batch", "length", ""}}}};
  save_onnx(folder.file("model.onnx"), rows, normal({2, 3, 4}, random), saving);
  OnnxModel read(folder.file("model.onnx"));
  check_saved(read, normal({2, 3, 4}, random), normal({5, 7, 4}, random), saving);
}

TEST_CASE("save_onnx: several inputs and outputs, with names") {
  Generator random(1);
  const TemporaryFolder folder;
  const std::string path = folder.file("model.onnx");
  Linear layer(4, 2, random);
  const Tensor examples[] = {normal({3, 4}, random), normal({3, 2}, random)};
  save_onnx(path, layer,
            [&](std::span<const Tensor> in) {
              return std::vector<Tensor>{layer(in[0]) + in[1], layer(in[0])};
            },
            examples, {.inputs = {"x", "shift"}, .outputs = {"moved", "plain"}});
  const OnnxModel file(path);
  const Tensor x = normal({5, 4}, random);
  const Tensor shift = normal({5, 2}, random);
  const Inference inference;
  const Tensor inputs[] = {x, shift};
  const std::vector<Tensor> outputs = file.run(inputs);
  check_close(outputs[0], layer(x) + shift);
  check_close(outputs[1], layer(x));
  CHECK(file.outputs()[1].name == "plain");
}

TEST_CASE("save_onnx: what no file can hold is an error, and no file is written") {
  Generator random(3);
  CHECK(contains(error_of_saving([&](const Tensor& x) { return x + normal(x.shape(), random); }), "random numbers"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return x * sum(x).item<float>(); }), "on the host"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return erfinv(x); }), "erfinv"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return x.length(0) > 2 ? x * 2 : x + 1; }, {2, 4}),
                 "other lengths"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return x * std::log(static_cast<double>(x.length(0))); }),
                 "free length"));
  Tensor state = zeros({2, 4});
  CHECK(contains(error_of_saving([&](const Tensor& x) {
                   state[{range(0, 1)}] = sum(x, {0}, true);
                   return sum(x, {0}) + sum(state, {0});
                 }),
                 "no state"));
  Sequential normed(BatchNorm(4));
  const Tensor example = normal({3, 4}, random);
  const TemporaryFolder folder;
  const Tensor before = normed.named_buffers()[0].second;
  const std::vector<float> values = before.to_vector<float>();
  const std::string error = error_of([&] { save_onnx(folder.file("model.onnx"), normed, example); });
  CHECK(contains(error, "eval()"));
  CHECK(before.to_vector<float>() == values);
}

TEST_SUITE_END();
