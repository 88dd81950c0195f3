// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/anomaly.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/call.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tutti {
namespace {

using Values = std::vector<double>;

Tensor values(const Values& numbers, bool requires_grad = true) {
  return Tensor(Array::from(numbers, {static_cast<std::int64_t>(numbers.size())}, test_device()), requires_grad);
}

struct Scaling : Module {
  explicit Scaling(double factor) : weight(values({factor, factor})) {}
  Tensor forward(const Tensor& x) const { return x * weight; }
  Tensor forward(const Tensor& x, const Tensor& y) const { return x * weight + y; }
  void visit(MemberVisitor& visitor) override { visitor.parameter("weight", weight); }
  Tensor weight;
};

struct Log : Module {
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
  CHECK(call(module, x).to_vector<double>() == Values{60, 90});
  CHECK(module.forward(x).to_vector<double>() == Values{3, 6});
  after.remove();
  CHECK(call(module, x).to_vector<double>() == Values{6, 9});
  CHECK(calls == std::vector<std::string>{"before", "after", "before"});
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

TEST_CASE("anomaly: Sequential names the layer") {
  const Sequential model(Scaling(2), Sequential(Scaling(-1), Log()));
  const DetectAnomaly detect;
  CHECK_THROWS_WITH_AS(model.forward(values({1, 2})), doctest::Contains("log in 1.1 made a NaN"), AutodiffError);
}

}  // namespace
}  // namespace tutti
