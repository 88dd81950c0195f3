// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/custom_elementwise.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/custom_kernel.h>
#include <tutti/backend/elementwise/element_run.h>
#include <tutti/backend/error.h>
#include <tutti/backend/forwarding_backend.h>
#include <tutti/backend/process/environment.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

namespace tutti {

namespace {

// --- structs as a program writes them: all sorts of gradients, domains and results

using elementwise::Domain;
using elementwise::Needs;

/// exp(-width x²) + shift, with more parameters than the library's have.
struct Bump {
  static constexpr auto name = "bump";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  double width = 1.0;
  double shift = 0.0;
  double unused = 0.0;
  template <class X> X value(const X& x) const {
    using namespace elementwise;
    return exp(-(x * x) * scalar<X>(width)) + scalar<X>(shift);
  }
  template <class X> X gradient(const X& x, const X& dy) const {
    using namespace elementwise;
    return dy * x * exp(-(x * x) * scalar<X>(width)) * scalar<X>(-2 * width);
  }
};

/// The logistic function, whose gradient reads its result.
struct Logistic {
  static constexpr auto name = "logistic";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  template <class X> X value(const X& x) const {
    using namespace elementwise;
    return scalar<X>(1) / (scalar<X>(1) + exp(-x));
  }
  template <class X> X gradient(const X& y, const X& dy) const {
    using namespace elementwise;
    return dy * y * (scalar<X>(1) - y);
  }
};

/// a b², with a select.
struct Mixed {
  static constexpr auto name = "mixed";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::inputs;
  template <class X> X value(const X& a, const X& b) const {
    using namespace elementwise;
    return select(b > scalar<X>(0), a * b * b, -a * b * b);
  }
  template <class X> X gradient_lhs(const X&, const X& b, const X& dy) const {
    using namespace elementwise;
    return dy * select(b > scalar<X>(0), b * b, -b * b);
  }
  template <class X> X gradient_rhs(const X& a, const X& b, const X& dy) const {
    using namespace elementwise;
    return dy * scalar<X>(2) * select(b > scalar<X>(0), a * b, -a * b);
  }
};

/// Rounds; its gradient lets all through, which none of the formulas of its value does.
struct StraightThrough {
  static constexpr auto name = "straight_through";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::nothing;
  template <class X> X value(const X& x) const {
    using namespace elementwise;
    return floor(x + scalar<X>(0.5));
  }
  template <class X> X gradient(const X& dy) const { return dy; }
};

struct Near {
  static constexpr auto name = "near";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::no_gradient;
  double distance = 1.0;
  template <class X> auto value(const X& a, const X& b) const {
    using namespace elementwise;
    return abs(a - b) < scalar<X>(distance);
  }
};

struct Same {
  static constexpr auto name = "same";
  static constexpr auto domain = Domain::any;
  static constexpr auto needs = Needs::zero;
  template <class X> X value(const X& x) const { return x; }
};

struct Constant {
  static constexpr auto name = "constant";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::nothing;
  template <class X> X value(const X&) const { return elementwise::scalar<X>(3); }
  template <class X> X gradient(const X& dy) const { return dy * elementwise::scalar<X>(0); }
};

// --- and what they are called on

using Inputs = std::vector<Tensor>;

/// Runs no kernel of a program, and counts the library's.
class Without final : public ForwardingBackend<Without> {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::map<std::string_view, int> calls;

  bool runs(const CustomKernel&, Device) const override { return false; }
  template <class Kernel, class... Arguments> void call(Kernel, const Arguments&... arguments) {
    ++calls[Kernel::name];
    Kernel::run(inner(), arguments...);
  }
};

/// A device on which formulas run as operations on tensors, and one on which they are kernels.
Device without_kernels() {
  static const DeviceKind kind = register_backend("without", std::make_unique<Without>(backend_for(test_device())));
  return {kind, 0};
}
std::vector<Device> both_devices() {
  if (test_device().kind == DeviceKind::cuda) return {test_device()};
  return {test_device(), without_kernels()};
}
Tensor on(Device device, const Tensor& x) {
  return Tensor(Array::from(x.to_vector<double>(), x.shape(), device), x.requires_grad());
}

Tensor bump(const Tensor& x) { return elementwise_function(Bump{0.5, 0.25, 1.0}, x); }
template <class A, class B> Tensor mixed(const A& a, const B& b) { return elementwise_function(Mixed{}, a, b); }

}  // namespace

TEST_CASE("custom elementwise: values, with strides and broadcasting") {
  for (const Device device : both_devices()) {
    const Tensor x = on(device, spread({3, 70}, 1));
    const Values given = x.to_vector<double>();
    const Values found = bump(x).to_vector<double>();
    for (std::size_t i = 0; i < given.size(); ++i)
      CHECK(found[i] == doctest::Approx(std::exp(-0.5 * given[i] * given[i]) + 0.25).epsilon(1e-12));
    CHECK(bump(transpose(x)).to_vector<double>() == transpose(bump(x)).to_vector<double>());
    CHECK(bump(x.slice(1, 0, 70, 3)).to_vector<double>() == bump(x).slice(1, 0, 70, 3).to_vector<double>());
    const Tensor row = constant({1, -2, 3}, {3}, device);
    const Tensor column = constant({2, -1}, {2, 1}, device);
    CHECK(mixed(row, column).to_vector<double>() == Values{4, -8, 12, -1, 2, -3});
    CHECK(mixed(row, -1.0).to_vector<double>() == Values{-1, 2, -3});
    CHECK(mixed(2, row).to_vector<double>() == Values{2, -8, 18});
    CHECK(bump(constant({}, {0, 3}, device)).shape() == Shape{0, 3});
    CHECK(elementwise_function(Constant{}, row).to_vector<double>() == Values{3, 3, 3});
    const Tensor same = elementwise_function(Same{}, row);
    same.fill_(0);
    CHECK(row.to_vector<double>() == Values{1, -2, 3});
  }
}

TEST_CASE("custom elementwise: dtypes are promoted, 16 bits rounded once, and comparisons give bool") {
  for (const Device device : both_devices()) {
    const auto numbers = [&](DType dtype) {
      return Tensor(Array::from(std::vector<float>{-3, -1, 0, 2, 5}, {5}, device).cast(dtype));
    };
    for (const DType dtype : kAllDTypes) {
      const Tensor x = numbers(dtype);
      CHECK(bump(x).dtype() == (is_floating(dtype) ? dtype : DType::f32));
      CHECK(mixed(x, x).dtype() == (dtype == DType::boolean ? DType::i64 : dtype));
      CHECK(elementwise_function(Same{}, x).dtype() == dtype);
      CHECK(elementwise_function(Near{2.5}, x, numbers(DType::i8)).dtype() == DType::boolean);
      if (is_narrow(dtype) && is_floating(dtype) && device == test_device())
        CHECK(bump(x).to(DType::f32).to_vector<float>() ==
              bump(x.cast(DType::f32)).cast(dtype).to(DType::f32).to_vector<float>());
    }
    CHECK(mixed(numbers(DType::i32), numbers(DType::f32)).dtype() == DType::f32);
    CHECK(mixed(numbers(DType::i32), 2).to_vector<std::int32_t>() == std::vector<std::int32_t>{-12, -4, 0, 8, 20});
    const Tensor near = elementwise_function(Near{2.5}, numbers(DType::f32), 0.0);
    CHECK(near.to_vector<bool>() == std::vector<bool>{false, true, true, true, false});
    const Autocast narrow(DType::bf16);
    CHECK(bump(numbers(DType::f32)).dtype() == DType::f32);
  }
}

TEST_CASE("custom elementwise: first and second derivatives are those of the struct's formulas") {
  for (const Device device : both_devices()) {
    const auto unary = [&](auto operation, const Tensor& x) {
      check_gradients([&](const Inputs& in) { return elementwise_function(operation, in[0]); }, {on(device, x)});
    };
    unary(Bump{0.5, 0.25, 1.0}, spread({2, 5}, 1));
    unary(Logistic{}, spread({7}, 2));
    check_gradients([](const Inputs& in) { return mixed(in[0], in[1]); },
                    {on(device, spread({2, 3}, 1)), on(device, spread({3}, 2))});
    check_gradients([](const Inputs& in) { return mixed(in[0], transpose(in[1])); },
                    {on(device, spread({2, 3}, 1)), on(device, spread({3, 1}, 2))});
    const Tensor x = on(device, leaf({0.2, 0.7, -1.6}));
    const Tensor y = elementwise_function(StraightThrough{}, x);
    CHECK(y.to_vector<double>() == Values{0, 1, -2});
    backward(sum(y * y));
    CHECK(x.grad().to_vector<double>() == Values{0, 2, -4});
    const Tensor z = on(device, leaf({1, 2}));
    backward(sum(elementwise_function(Same{}, z)));
    CHECK(z.grad().to_vector<double>() == Values{0, 0});
  }
}

TEST_CASE("custom elementwise: the library's operations written anew give the same") {
  const Tensor x = spread({200}, 3);
  backward(sum(square(elementwise_function(Logistic{}, x))));
  const Tensor same(x.array(), true);
  backward(sum(square(sigmoid(same))));
  const Values mine = x.grad().to_vector<double>();
  const Values its = same.grad().to_vector<double>();
  for (std::size_t i = 0; i < mine.size(); ++i) CHECK(mine[i] == doctest::Approx(its[i]).epsilon(1e-12));
}

TEST_CASE("custom elementwise: errors name the operation and its operands") {
  CHECK_THROWS_WITH_AS(mixed(constant({1, 2}, {2}), constant({1, 2, 3}, {3})), doctest::Contains("[mixed]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(bump(Tensor()), doctest::Contains("bump"), AutodiffError);
  const Tensor x = leaf({1, 2});
  const Tensor y = bump(x);
  {
    const NoGrad off;
    x.fill_(0);
  }
  CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("bump"), AutodiffError);
}

TEST_CASE("custom elementwise: a captured step has its kernels, and those of custom functions") {
  static const auto doubled = [](std::span<const Array> inputs, std::span<const Array> outputs) {
    const auto loop = [](const ElementRun& run) {
      for (std::int64_t i = 0; i < run.count; ++i) run.to<double>()[i] = 2 * run.at<double>(0, i);
    };
    static const CustomKernel kernel("doubled", {.cpu = [=](const CustomCall& call, const CpuThreads& threads) {
                                       threads.for_each_run(call.outputs[0], call.inputs, loop);
                                     }});
    run_kernel(kernel, inputs, outputs);
    return outputs[0];
  };
  const auto twice = [](const Array& x) {
    const Array outputs[] = {Array::empty(x.shape(), x.dtype(), x.device())};
    return doubled({&x, 1}, outputs);
  };
  if (test_device().kind == DeviceKind::cuda) return;  // which has no function of it
  const Tensor x = leaf({1, 2, 3});
  const Array gradient = Array::zeros({3}, DType::f64, test_device());
  const auto step = [&] {
    const Tensor y = custom_function(
        "twice", {x}, [&](std::span<const Array> in) { return twice(in[0]); },
        [&](std::span<const Array>, const Array&, const Array& dy) { return std::vector<Array>{twice(dy)}; });
    const Tensor inputs[] = {x};
    const Tensor found = grad(sum(mixed(bump(y), x)), inputs)[0];
    Array(gradient).copy_from(found.array());
  };
  step();
  const Values first = gradient.to_vector<double>();
  Capture capture(test_device());
  {
    const CaptureScope scope(capture);
    step();
  }
  CHECK(gradient.to_vector<double>() == first);
  {
    const NoGrad off;
    x.copy_(constant({-1, 0.5, 2}, {3}));
  }
  capture.begin_replay();
  capture.run(0, capture.tape().size());
  const Values replayed = gradient.to_vector<double>();
  CHECK(replayed != first);
  step();
  CHECK(gradient.to_vector<double>() == replayed);
  // Queued work holds arrays, so that gradients are added up in place or not, as time has it.
  if (environment_switch("TUTTI_CPU_ASYNC")) return;
  Capture again(test_device());
  {
    const CaptureScope scope(again);
    step();
  }
  CHECK(capture.tape().difference(again.tape()).empty());
}

}  // namespace tutti
