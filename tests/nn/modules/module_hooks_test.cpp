// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/anomaly.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/module_list.h>
#include <tutti/nn/recurrent.h>
#include <tutti/nn/sequential.h>
#include <tutti/nn/transformer.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using Values = std::vector<double>;

Tensor values(const Values& numbers, bool requires_grad = true) {
  return Tensor(Array::from(numbers, {static_cast<std::int64_t>(numbers.size())}, test_device()), requires_grad);
}

struct Scaling : Layer {
  explicit Scaling(double factor) : weight(values({factor, factor})) {}
  using Layer::forward;
  using Layer::operator();
  Tensor compute(const Tensor& x) const override { return x * weight; }
  Tensor forward(const Tensor& x, const Tensor& y) const {
    const auto sum = [this](const Tensor& a, const Tensor& b) { return a * weight + b; };
    return call_through(*this, sum, x, y);
  }
  Tensor operator()(const Tensor& x, const Tensor& y) const { return forward(x, y); }
  void visit(MemberVisitor& visitor) override { visitor.parameter("weight", weight); }
  Tensor weight;
};

struct Log : Module {  // with a forward of its own: no layer
  Tensor forward(const Tensor& x) const { return log(x); }
  void visit(MemberVisitor&) override {}
};

TEST_CASE("module hooks: before and after forward, seeing and replacing") {
  Scaling module(3);
  std::vector<std::string> calls;
  module.register_forward_pre_hook([&](const Module& caller, std::span<const Tensor> inputs) {
    CHECK(&caller == &module);
    calls.emplace_back("before");
    return std::vector<Tensor>{inputs[0] + 1};
  });
  HookHandle after =
      module.register_forward_hook([&](const Module&, std::span<const Tensor> inputs, const Tensor& output) {
        CHECK(inputs[0].to_vector<double>() == Values{2, 3});
        calls.emplace_back("after");
        return output * 10;
      });
  const Tensor x = values({1, 2});
  CHECK(module(x).to_vector<double>() == Values{60, 90});
  CHECK(calls == std::vector<std::string>{"before", "after"});
  CHECK(module.forward(x).to_vector<double>() == Values{60, 90});
  CHECK(call(module, x).to_vector<double>() == Values{60, 90});
  CHECK(calls.size() == 6);
  after.remove();
  CHECK(module(x).to_vector<double>() == Values{6, 9});
  CHECK(calls.size() == 7);
}

TEST_CASE("module hooks: refused where the module's own forward would pass them by") {
  Log log;
  const ForwardHook hook = [](const Module&, std::span<const Tensor>, const Tensor&) { return Tensor(); };
  CHECK_THROWS_WITH_AS(log.register_forward_hook(hook), doctest::Contains("this module is not a Layer"), Error);
  CHECK(call(log, values({1})).to_vector<double>() == Values{0});
  ModuleList<Scaling> list;
  CHECK_THROWS_AS(list.register_backward_hook({}), Error);
}

/// Of inputs of several types, and with a result that is no tensor.
struct Halves
    : LayerOf<std::pair<Tensor, double>(const Tensor& x, Generator& random, const std::vector<Tensor>& more)> {
  std::pair<Tensor, double> compute(const Tensor& x, Generator& random,
                                    const std::vector<Tensor>& more) const override {
    random.split(1);
    Tensor sum = x;
    for (const Tensor& tensor : more) sum = sum + tensor;
    return {sum / 2, 0.5};
  }
  void visit(MemberVisitor&) override {}
};

TEST_CASE("layer: of any inputs, also written as braces, and of any result") {
  Halves halves;
  Generator random(1);
  const Tensor x = values({2, 4});
  CHECK(halves(x, random, {x, x}).first.to_vector<double>() == Values{3, 6});
  halves.register_forward_pre_hook([](const Module&, std::span<const Tensor> in) {
    CHECK(in.size() == 1);
    return std::vector<Tensor>{in[0] * 2};
  });
  halves.register_forward_hook([](const Module&, std::span<const Tensor>, const Tensor& y) { return y + 1; });
  const auto [sum, share] = halves(x, random, {x, x});
  CHECK(sum.to_vector<double>() == Values{5, 9});
  CHECK(share == 0.5);
  CHECK(call(halves, x, random, std::vector<Tensor>{}).first.to_vector<double>() == Values{3, 5});
}

TEST_CASE("layer: known by its base alone it is called as what it is") {
  const Scaling scaling(3);
  const Layer& layer = scaling;
  CHECK(layer(values({1, 2})).to_vector<double>() == Values{3, 6});
}

TEST_CASE("module hooks: gradients of the output and of each input") {
  Scaling module(3);
  std::vector<std::string> calls;
  module.register_backward_pre_hook([&](const Module&, const Tensor& gradient) {
    calls.emplace_back("output");
    return gradient * 10;
  });
  module.register_backward_hook([&](const Module&, std::size_t input, const Tensor& gradient) {
    calls.push_back("input " + std::to_string(input));
    return input == 0 ? gradient * 100 : Tensor();
  });
  const Tensor x = values({1, 2});
  const Tensor y = values({3, 4});
  backward(sum(call(module, x, y) + x));
  CHECK(x.grad().to_vector<double>() == Values{3001, 3001});
  CHECK(y.grad().to_vector<double>() == Values{10, 10});
  CHECK(module.weight.grad().to_vector<double>() == Values{10, 20});
  CHECK(calls.front() == "output");
  CHECK(calls.size() == 3);
  const NoGrad no_grad;
  CHECK(call(module, x).to_vector<double>() == Values{3, 6});
  CHECK(calls.size() == 3);
}

TEST_CASE("module hooks: Sequential's layers have theirs; copies have none") {
  Sequential model(Scaling(2), Scaling(3));
  int calls = 0;
  model.layer(1).register_forward_hook([&](const Module&, std::span<const Tensor> inputs, const Tensor&) {
    CHECK(inputs[0].to_vector<double>() == Values{2, 4});
    ++calls;
    return Tensor();
  });
  const Tensor x = values({1, 2});
  CHECK(model.forward(x).to_vector<double>() == Values{6, 12});
  CHECK(calls == 1);
  Sequential copy = model;
  CHECK(copy.forward(x).to_vector<double>() == Values{6, 12});
  CHECK(calls == 1);
  const Sequential moved = std::move(model);
  moved.forward(x);
  CHECK(calls == 2);
  Scaling single(2);
  single.register_forward_hook([&](const Module&, std::span<const Tensor>, const Tensor&) { return Tensor(); });
  CHECK_FALSE(clone(single, test_device()).has_hooks());
}

TEST_CASE("module hooks: as many inputs as there were") {
  Scaling module(3);
  module.register_forward_pre_hook([](const Module&, std::span<const Tensor> in) {
    return std::vector<Tensor>{in[0], in[0]};
  });
  CHECK_THROWS_WITH_AS(call(module, values({1, 2})), doctest::Contains("2 inputs in place of 1"), Error);
}

/// Every module below one by dotted name.
struct Listing : MemberVisitor {
  void parameter(std::string_view, Tensor&) override {}
  void buffer(std::string_view, Tensor&) override {}
  void module(std::string_view name, Module& module) override {
    const std::string before = std::exchange(prefix, prefix + std::string(name));
    all.emplace_back(prefix, &module);
    prefix += ".";
    module.visit(*this);
    prefix = before;
  }
  std::string prefix;
  std::vector<std::pair<std::string, Module*>> all;
};

std::vector<std::pair<std::string, Module*>> modules_of(Module& module) {
  Listing listing;
  module.visit(listing);
  return listing.all;
}

TEST_CASE("module hooks: a copy refuses what its original refuses, an assigned one too") {
  Generator random(1);
  const ForwardHook hook = [](const Module&, std::span<const Tensor>, const Tensor&) { return Tensor(); };
  Dropout refusing(0.5, random);
  refusing.refuse_hooks("it is not called");
  Dropout taking(0.5, random);
  Dropout assigned = taking;
  assigned = refusing;
  CHECK_THROWS_WITH_AS(assigned.register_forward_hook(hook), doctest::Contains("it is not called"), Error);
  assigned = taking;
  CHECK_NOTHROW(assigned.register_forward_hook(hook));
}

TEST_CASE("module hooks: of every part of a TransformerBlock, or refused") {
  Generator random(1);
  TransformerBlock block(4, 2, random, {.causal = true, .dropout = 0.5, .device = test_device()});
  block.eval();
  std::map<std::string, int> forwards;
  std::map<std::string, int> backwards;
  std::vector<std::string> refused;
  for (const auto& [name, module] : modules_of(block)) {
    try {
      module->register_forward_hook(
          [&forwards, name = name](const Module&, std::span<const Tensor> in, const Tensor& y) {
            CHECK(in.size() == 1);
            CHECK(y.defined());
            ++forwards[name];
            return Tensor();
          });
      module->register_backward_pre_hook([&backwards, name = name](const Module&, const Tensor&) {
        ++backwards[name];
        return Tensor();
      });
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find("hooks would never run here: attention drops") != std::string::npos);
      refused.push_back(name);
    }
  }
  const Tensor x(Generator(2).normal({1, 3, 4}, DType::f32, test_device()), true);
  TransformerBlock plain = block;
  const Tensor y = block(x);
  CHECK(y.to_vector<float>() == plain.forward(x).to_vector<float>());
  backward(sum(square(y)));
  CHECK(refused == std::vector<std::string>{"self_attn.dropout"});
  CHECK(forwards == backwards);
  for (const std::string name :
       {"self_attn", "self_attn.out_proj", "linear1", "dropout", "linear2", "norm1", "norm2", "dropout1", "dropout2"})
    CHECK_MESSAGE(forwards[name] == 1, name);
  CHECK_THROWS_WITH_AS(modules_of(plain).at(2).second->register_forward_pre_hook({}), doctest::Contains("never run"),
                       Error);
}

TEST_CASE("module hooks: of attention with a mask, whose tensors they replace") {
  Generator random(1);
  MultiheadAttention attention(4, 2, random, {.device = test_device()});
  const Tensor q(Generator(2).normal({1, 3, 4}, DType::f32, test_device()));
  const Tensor k(Generator(3).normal({1, 5, 4}, DType::f32, test_device()));
  const AttentionMask mask{.mask = Tensor(Array::arange(5, DType::f32, test_device())).expand_dims(0) < 3};
  const Tensor expected = attention.forward(q, k, k * 2, mask) + 1;
  attention.register_forward_pre_hook([](const Module&, std::span<const Tensor> in) {
    REQUIRE(in.size() == 3);
    return std::vector<Tensor>{in[0], in[1], in[2] * 2};
  });
  attention.register_forward_hook([](const Module&, std::span<const Tensor>, const Tensor& y) { return y + 1; });
  CHECK(attention(q, k, k, mask).to_vector<float>() == expected.to_vector<float>());
}

TEST_CASE("module hooks: of an LSTM, its dropout and its cell see the sequence and the hidden state") {
  Generator random(1);
  LSTM lstm(3, 4, random, {.layers = 2, .dropout = 0.5, .device = test_device()});
  const Tensor x(Generator(2).normal({5, 2, 3}, DType::f32, test_device()), true);
  const RecurrentState initial{Tensor(Array::full({2, 2, 4}, 0.5, DType::f32, test_device())),
                               Tensor(Array::full({2, 2, 4}, 0.25, DType::f32, test_device()))};
  lstm.eval();
  const RecurrentOutput expected = lstm.forward(x, initial);
  std::vector<std::string> calls;
  modules_of(lstm).at(0).second->register_forward_hook(
      [&](const Module&, std::span<const Tensor>, const Tensor& between) {
        CHECK(between.shape() == Shape{5, 2, 4});
        calls.emplace_back("dropout");
        return Tensor();
      });
  lstm.register_forward_hook([&](const Module&, std::span<const Tensor> in, const Tensor& sequence) {
    CHECK(in.size() == 1);
    calls.emplace_back("after");
    return sequence * 2;
  });
  lstm.register_backward_pre_hook([&](const Module&, const Tensor& gradient) {
    CHECK(gradient.shape() == Shape{5, 2, 4});
    calls.emplace_back("output");
    return Tensor();
  });
  lstm.register_backward_hook([&](const Module&, std::size_t, const Tensor& gradient) {
    CHECK(gradient.shape() == x.shape());
    calls.emplace_back("input");
    return Tensor();
  });
  const RecurrentOutput output = lstm(x, initial);
  CHECK(output.sequence.to_vector<float>() == (expected.sequence * 2).to_vector<float>());
  CHECK(output.state.hidden.to_vector<float>() == expected.state.hidden.to_vector<float>());
  CHECK(output.state.cell.to_vector<float>() == expected.state.cell.to_vector<float>());
  backward(sum(output.sequence));
  CHECK(calls == std::vector<std::string>{"dropout", "after", "output", "input"});

  LSTM single(3, 4, random, {.device = test_device()});
  CHECK_THROWS_WITH_AS(modules_of(single).at(0).second->register_backward_hook({}), doctest::Contains("there is one"),
                       Error);
  LSTMCell cell(3, 4, random, {.device = test_device()});
  const Tensor hidden = cell.forward(x[0]).hidden;
  cell.register_forward_hook([](const Module&, std::span<const Tensor>, const Tensor& state) { return state + 1; });
  CHECK(cell(x[0]).hidden.to_vector<float>() == (hidden + 1).to_vector<float>());
}

TEST_CASE("anomaly: Sequential names the layer") {
  const Sequential model(Scaling(2), Sequential(Scaling(-1), Log()));
  const DetectAnomaly detect;
  CHECK_THROWS_WITH_AS(model.forward(values({1, 2})), doctest::Contains("log in 1.1 made a NaN"), AutodiffError);
}

}  // namespace
}  // namespace tutti
