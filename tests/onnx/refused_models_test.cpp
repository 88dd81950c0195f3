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

TEST_CASE("save_onnx: what a run does not show is found when the file is checked") {
  Generator random(3);
  CHECK(contains(error_of_saving([](const Tensor& x) { return x.length(0) == 1 ? x * 2 : x * 3; }), "\"batch\" = 1"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return squeeze(x) * 2; }), "\"batch\" = 1"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return x.array().data<float>()[0] > 0 ? x * 2 : x * 3; }),
                 "by other means"));
  const auto on_the_host = [](const Tensor& x) {
    const auto largest = [](std::span<const Array> in) {
      const std::vector<float> values = in[0].to_vector<float>();
      return Array::full({}, *std::ranges::max_element(values), DType::f32, cpu());
    };
    const auto none = [](std::span<const Array> in, const Array&, const Array&) { return std::vector<Array>{in[0]}; };
    return x + custom_function("largest", {x}, largest, none);
  };
  CHECK(contains(error_of_saving(on_the_host), "on the host"));
  const OnnxSaving fixed{.axes = {OnnxAxes()}};
  int calls = 0;
  CHECK(contains(error_of_saving([&](const Tensor& x) { return x * static_cast<double>(++calls); }, {3, 4}, fixed),
                 "from call to call"));
  const auto large_beside = [](const Tensor& x) {
    return concatenate({floor(x * static_cast<double>(x.length(0) == 1 ? 2 : 1)), full({x.length(0), 1}, -1e9)}, 1);
  };
  CHECK(contains(error_of_saving(large_beside), "\"batch\" = 1"));
}

TEST_CASE("save_onnx: what no file can hold is an error, and no file is written") {
  Generator random(3);
  CHECK(contains(error_of_saving([&](const Tensor& x) { return x + normal(x.shape(), random); }), "random numbers"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return x * sum(x).item<float>(); }), "on the host"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return erfinv(x); }), "erfinv"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return x.length(0) > 2 ? x * 2 : x + 1; }, {2, 4}),
                 "computes otherwise than with \"batch\" = 2"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return x * std::log(static_cast<double>(x.length(0))); }),
                 "depend on a length"));
  Tensor state = zeros({2, 4});
  CHECK(contains(error_of_saving([&](const Tensor& x) {
                   state[{range(0, 1)}] = sum(x, {0}, true);
                   return sum(x, {0}) + sum(state, {0});
                 }),
                 "no state"));
  Tensor arena = zeros({8});
  struct Member : Layer {
    Tensor arena, weight;
    explicit Member(const Tensor& all) : arena(all), weight(all[{range(0, 4)}]) {}
    Tensor compute(const Tensor& x) const override {
      Tensor written = arena;
      written.fill_(2.0);
      return x * weight;
    }
    void visit(MemberVisitor& v) override { v.buffer("weight", Member::weight); }
  };
  Member member(arena);
  const TemporaryFolder other;
  CHECK(contains(error_of([&] { save_onnx(other.file("model.onnx"), member, normal({3, 4}, random)); }), "\"weight\""));
  CHECK(contains(error_of_saving([](const Tensor& x) { return x * 2; }, {3, 4}, {.axes = {{"7", ""}}}), "no name"));
  CHECK(contains(error_of_saving([](const Tensor& x) { return x * 2; }, {3, 4}, {.axes = {{"n"}}}), "stands for one"));
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
