// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/save_onnx.h>

#include <tutti/autodiff/custom_elementwise.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/custom_kernel.h>
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
#include <tutti/tests/error_text.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/onnx/saved_model.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

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
  const TemporaryFolder folder;
  save_onnx(folder.file("model.onnx"), model, normal({2, 5}, random));
  CHECK(contains(read_file(folder.file("model.onnx")), "2/Gemm_"));
}

TEST_CASE("save_onnx: convolutions, their norms and pools") {
  Generator random(1);
  Sequential model(Conv2d(1, 4, 3, random, {.padding = 1}), BatchNorm(4), ReLU(), MaxPool2d(2), Conv2d(4, 6, 3, random),
                   AvgPool2d(2), Flatten(), Linear(6, 5, random));
  model.eval();
  check_saved(model, normal({2, 1, 10, 10}, random), normal({5, 1, 10, 10}, random));
}

TEST_CASE("save_onnx: operators that not all versions and runtimes have for 16 bits stand between casts") {
  Generator random(1);
  const TemporaryFolder folder;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Sequential model(Conv2d(1, 4, 3, random), Flatten(), Linear(4 * 6 * 6, 5, random));
    model.detach_members_as(dtype);
    save_onnx(folder.file("model.onnx"), model, cast(normal({2, 1, 8, 8}, random), dtype));
    const std::string text = read_file(folder.file("model.onnx"));
    CHECK(contains(text, "Cast"));
    CHECK(contains(text, "Conv"));
  }
}

TEST_CASE("save_onnx: a transposed convolution") {
  Generator random(1);
  Sequential model(ConvTranspose2d(3, 4, 3, random, {.stride = 2, .padding = 1, .output_padding = 1}));
  check_saved(model, normal({2, 3, 5, 6}, random), normal({4, 3, 5, 6}, random));
}

TEST_CASE("save_onnx: a transformer, of any batch and any length") {
  Generator random(1);
  struct Model : Layer {
    Embedding tokens;
    TransformerBlock first, second;
    LayerNorm norm;
    Linear head;
    explicit Model(Generator& random)
        : tokens(11, 16, random), first(16, 4, random), second(16, 4, random), norm(16), head(16, 11, random) {}
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
  const OnnxModel file = check_saved(model, ids(3, 8), ids(5, 12), {.axes = {{"batch", "length"}}});
  CHECK(*file.outputs()[0].shape == std::vector<std::string>{"batch", "length", "11"});
}

TEST_CASE("save_onnx: images of any size, unless a number is rounded; models with a longest length") {
  Generator random(1);
  Sequential strided(Conv2d(1, 2, 3, random, {.stride = 2, .padding = 1}), ReLU());
  const OnnxSaving any_size{.axes = {{"batch", "", "height", "width"}}};
  const Tensor image = normal({2, 1, 16, 16}, random);
  Computation averaged([&](const Tensor& x) { return mean(strided(x), {2, 3}); });
  check_saved(averaged, image, normal({3, 1, 9, 22}, random), any_size);
  Computation flat([&](const Tensor& x) { return reshape(strided(x), {x.length(0), -1}); });
  check_saved(flat, image, normal({3, 1, 9, 22}, random), any_size);
  Computation numbered([&](const Tensor& x) {
    const Tensor y = strided(x);
    return y + Tensor(Array::arange(y.length(-1), DType::f32, cpu()));
  });
  const TemporaryFolder folder;
  const std::string error = error_of([&] { save_onnx(folder.file("model.onnx"), numbered, image, any_size); });
  CHECK(contains(error, "\"width\" = "));
  CHECK(contains(error, "OnnxSaving::axes"));

  const Tensor table = normal({10, 4}, random);
  Computation positions([&](const Tensor& x) { return x + table.slice(0, 0, x.length(1)); });
  check_saved(positions, normal({2, 10, 4}, random), normal({3, 7, 4}, random), {.axes = {{"batch", "length", ""}}});
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
    save_onnx(folder.file("model.onnx"), model, example, {.axes = {{"batch", "time", ""}}});
  });
  CHECK(contains(error, "OnnxSaving::axes"));
  CHECK(contains(error, "in Model.lstm: LSTM"));
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

namespace {

/// exp(-width x^2)
struct Bump {
  static constexpr auto name = "bump";
  static constexpr auto domain = elementwise::Domain::floating;
  static constexpr auto needs = elementwise::Needs::inputs;
  double width = 1.0;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const {
    using namespace elementwise;
    return exp(-(x * x) * scalar<X>(width));
  }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    using namespace elementwise;
    return dy * x * exp(-(x * x) * scalar<X>(width)) * scalar<X>(-2 * width);
  }
};

}  // namespace

TEST_CASE("save_onnx: structs of a program are saved, its kernels are refused") {
  check_function([](const Tensor& x) { return elementwise_function(Bump{0.5}, x); });
  const CustomKernel twice("twice", {.cpu = [](const CustomCall& call, const CpuThreads&) {
                             const float* const from = call.inputs[0].data<float>();
                             float* const to = call.outputs[0].data<float>();
                             for (std::int64_t i = 0; i < call.outputs[0].size(); ++i) to[i] = 2 * from[i];
                           }});
  const std::string error = error_of_saving([&](const Tensor& x) {
    Array y = Array::empty(x.shape(), DType::f32, cpu());
    const Array inputs[] = {x.array().contiguous()};
    run_kernel(twice, inputs, {&y, 1});
    return Tensor(y);
  });
  CHECK(contains(error, "twice"));
}

TEST_CASE("save_onnx: a model that was read is saved again") {
  Generator random(1);
  Sequential model(Linear(4, 6, random), Tanh(), LayerNorm(6));
  Computation rows([&](const Tensor& x) { return concatenate({model(x), slice(x, -1, 0, 1)}, -1); });
  const TemporaryFolder folder;
  const OnnxSaving saving{.axes = {{"batch", "length", ""}}};
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

TEST_CASE("save_onnx: parameters and buffers of a file are those of the model") {
  Generator random(1);
  const TemporaryFolder folder;
  Sequential model(Linear(4, 6, random), BatchNorm(6), ReLU());
  model.eval();
  save_onnx(folder.file("model.onnx"), model, normal({2, 4}, random));
  OnnxModel file(folder.file("model.onnx"), {.trainable = true});
  const auto names = [](Module& module) {
    std::vector<std::string> all;
    for (const auto& [name, parameter] : module.named_parameters()) all.push_back(name);
    std::ranges::sort(all);
    return all;
  };
  CHECK(names(file) == names(model));
}

TEST_CASE("save_onnx: attention of many tokens, behind one more") {
  Generator random(1);
  struct Model : Layer {
    TransformerBlock block;
    Linear head;
    Tensor token;
    explicit Model(Generator& random) : block(8, 2, random), head(8, 3, random), token(normal({1, 1, 8}, random)) {}
    Tensor compute(const Tensor& x) const override {
      const Tensor first = broadcast_to(token, {x.length(0), 1, 8});
      return head(block(concatenate({first, x}, 1)));
    }
    void visit(MemberVisitor& v) override {
      v.module("block", block);
      v.module("head", head);
      v.parameter("token", token);
    }
  };
  Model model(random);
  model.eval();
  check_saved(model, normal({1, 200, 8}, random), normal({3, 200, 8}, random));
  check_saved(model, normal({2, 9, 8}, random), normal({3, 150, 8}, random), {.axes = {{"batch", "length", ""}}});
}

TEST_CASE("save_onnx: products of slices of one, and tables that end") {
  Generator random(1);
  Computation attending(
      [](const Tensor& x) { return softmax(matmul(slice(x, -1, 0, 3), transpose(slice(x, -1, 3, 6))), -1); });
  check_saved(attending, normal({1, 5, 6}, random), normal({1, 5, 6}, random), {.axes = {OnnxAxes()}});
  Embedding table(10, 4, random);
  Computation places([&](const Tensor& x) { return x + table(Tensor(Array::arange(x.length(1), DType::i64, cpu()))); });
  check_saved(places, normal({2, 10, 4}, random), normal({3, 6, 4}, random), {.axes = {{"batch", "length", ""}}});
}

TEST_CASE("save_onnx: outputs that are inputs, constants or each other; f32 of 16 bits") {
  Generator random(1);
  const TemporaryFolder folder;
  Linear layer(4, 2, random);
  const Tensor examples[] = {normal({3, 4}, random)};
  const auto run = [&](std::span<const Tensor> in) {
    const Tensor y = layer(in[0]);
    return std::vector<Tensor>{in[0], layer.weight, y, y,
                               mean(in[0], {0}) * (1.0 / static_cast<double>(in[0].length(0)))};
  };
  save_onnx(folder.file("model.onnx"), layer, run, examples);
  const Tensor inputs[] = {normal({5, 4}, random)};
  const Inference inference;
  const std::vector<Tensor> found = OnnxModel(folder.file("model.onnx")).run(inputs);
  const std::vector<Tensor> expected = run(inputs);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) check_close(found[i], expected[i]);
  Computation narrow([](const Tensor& x) { return cast(silu(cast(x, DType::bf16)), DType::f32); });
  save_onnx(folder.file("narrow.onnx"), narrow, normal({30, 40}, random));
  CHECK(contains(error_of([&] {
                   save_onnx(folder.file("x"), layer, run, examples, {.outputs = {"a", "b"}});
                 }),
                 "names"));
  CHECK(
      contains(error_of([&] { save_onnx(folder.file("x"), layer, examples[0], {.inputs = {"weight"}}); }), "the name"));
}

TEST_CASE("save_onnx: slices from the back begin where short inputs begin") {
  Generator random(1);
  const OnnxSaving any_length{.axes = {{"batch", "length", ""}}};
  Computation last([](const Tensor& x) { return x[{all, range(-3, none)}] * 2; });
  check_saved(last, normal({2, 8, 3}, random), normal({2, 2, 3}, random), any_length);
  Computation without([](const Tensor& x) { return x[{all, range(-4, -1)}] * 2; });
  check_saved(without, normal({2, 8, 3}, random), normal({2, 3, 3}, random), any_length);
}

TEST_SUITE_END();
