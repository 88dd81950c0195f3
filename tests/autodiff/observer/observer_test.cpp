// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/observer/gradient_observer.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/engine/backward_record.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti {
namespace {

const int kGroup = 0;
const int kOtherGroup = 0;

Tensor parameter(const Values& values, std::uint32_t id, const std::string& name, Device device = test_device()) {
  Tensor tensor = leaf(values, {static_cast<std::int64_t>(values.size())}, device);
  tensor.gradient_slot().attachment = std::make_shared<const Attachment>(Attachment{{id}, name, &kGroup});
  return tensor;
}

/// Writes down everything it hears.
struct Recorder : GradientObserver {
  using Log = std::vector<std::string>;

  void on_backward_begin(Device device, std::span<const ParameterUse> uses) override {
    log.push_back("begin " + to_string(device));
    for (const ParameterUse& use : uses) contributions[use.id.value] = use.contributions;
    if (throw_at == "begin") throw std::runtime_error("no peers");
  }
  void on_gradient_final(Device, ParameterId id, GradientRef reference) override {
    log.push_back("final " + std::to_string(id.value));
    CHECK(reference.ready.recorded());
    gradients[id.value] = reference.gradient;
    unknown_reads[id.value] = reference.unknown_reads;
    if (throw_at == "final") throw std::runtime_error("no peers");
  }
  void on_backward_end(Device device) override { log.push_back("end " + to_string(device)); }
  void on_backward_failed(Device, std::exception_ptr cause) override {
    try {
      std::rethrow_exception(cause);
    } catch (const std::exception& error) {
      log.push_back("failed");
      failure = error.what();
    }
  }

  BackwardOptions options() { return {.observer = this, .owner = &kGroup}; }

  Log log;
  std::map<std::uint32_t, std::uint32_t> contributions;
  std::map<std::uint32_t, Array> gradients;
  std::map<std::uint32_t, bool> unknown_reads;
  std::string failure;
  std::string throw_at;
};

using Log = Recorder::Log;
using Counts = std::map<std::uint32_t, std::uint32_t>;

Tensor failing(const Tensor& x) {
  return custom_function(
      "failing", {x}, [](std::span<const Array> in) { return in[0].copy(); },
      [](std::span<const Array>, const Array&, const Array&) -> std::vector<Array> {
        throw std::runtime_error("division by cucumber");
      });
}

Tensor without_gradient(const Tensor& x) {
  return custom_function(
      "without_gradient", {x}, [](std::span<const Array> in) { return in[0].copy(); },
      [](std::span<const Array>, const Array&, const Array&) { return std::vector<Array>(1); });
}

TEST_CASE("observer: hears begin, each gradient once, later layers first, and end") {
  Recorder recorder;
  const Tensor first = parameter({1, 2}, 4, "first");
  const Tensor second = parameter({3, 4}, 7, "second");
  const Tensor third = parameter({5, 6}, 2, "third");
  const Tensor x = constant({1, 1}, {2});
  backward(sum(tanh(tanh(x * first) * second) * third), recorder.options());
  CHECK(recorder.log == Log{as_tested("begin cpu:0"), "final 2", "final 7", "final 4", as_tested("end cpu:0")});
  CHECK(recorder.contributions == Counts{{2, 1}, {4, 1}, {7, 1}});
  CHECK(recorder.gradients[4].storage() == first.gradient_slot().gradient.storage());
}

TEST_CASE("observer: a replay is cut where something can begin, and tells of all gradients up to there") {
  struct Buckets : Recorder {
    std::uint32_t portion_of(ParameterId id) const override { return alternating ? id.value % 2 : id.value / 2; }
    bool alternating = false;
  } recorder;
  Log expected{"run", as_tested("begin cpu:0")};
  const auto expect = [&](std::initializer_list<std::string> more) { expected.insert(expected.end(), more); };
  SUBCASE("neighbours") { expect({"run", "final 4", "run", "final 3", "final 2", "run", "final 1", "final 0"}); }
  SUBCASE("in turn") {
    recorder.alternating = true;
    expect({"run", "final 4", "final 3", "final 2", "final 1", "run", "final 0"});
  }
  expect({"run", as_tested("end cpu:0")});
  std::vector<Tensor> factors;
  Capture capture(test_device());
  for (std::uint32_t id = 0; id < 5; ++id) {
    factors.push_back(parameter({2.0 + id}, id, "p" + std::to_string(id)));
    factors.back().gradient_slot().destination = Array::empty({1}, DType::f64, test_device());
    capture.trust(factors.back().array());
    capture.trust(factors.back().gradient_slot().destination);
  }
  const Tensor x = constant({1}, {1});
  capture.trust(x.array());
  BackwardRecord record;
  BackwardOptions options = recorder.options();
  options.record = &record;
  {
    const CaptureScope scope(capture);
    Tensor product = x;
    for (const Tensor& factor : factors) product = product * factor;
    backward(sum(product), options);
  }
  recorder.log.clear();
  for (const Tensor& factor : factors) {
    GradientSlot& slot = factor.gradient_slot();
    slot.gradient = {};
    slot.state = GradientState::undefined;
    slot.destination.fill(0);
  }
  std::size_t at = 0;
  replay_backward(record, recorder.options(), capture.tape().size(), [&](std::size_t begin, std::size_t end) {
    CHECK(begin == at);
    at = end;
    recorder.log.push_back("run");
    capture.run(begin, end);
  });
  CHECK(at == capture.tape().size());
  CHECK(recorder.log == expected);
  for (const Tensor& factor : factors)
    CHECK(factor.grad().to_vector<double>() == Values{720.0 / factor.item<double>()});
}

TEST_CASE("observer: contributions count the edges; the gradient is final with the last") {
  Recorder recorder;
  const Tensor shared = parameter({2, 3}, 0, "shared");
  const Tensor other = parameter({1, 1}, 1, "other");
  const Tensor x = constant({1, 10}, {2});
  backward(sum(shared * shared * other + shared * x), recorder.options());
  CHECK(recorder.contributions == Counts{{0, 3}, {1, 1}});
  CHECK(recorder.log == Log{as_tested("begin cpu:0"), "final 1", "final 0", as_tested("end cpu:0")});
  CHECK(recorder.gradients[0].to_vector<double>() == Values{5, 16});
}

TEST_CASE("observer: unattached leaves get their gradients, unheard") {
  Recorder recorder;
  const Tensor x = leaf({2, 3});
  backward(sum(x * x), recorder.options());
  CHECK(recorder.log == Log{as_tested("begin cpu:0"), as_tested("end cpu:0")});
  CHECK(recorder.contributions.empty());
  CHECK(x.grad().to_vector<double>() == Values{4, 6});
}

TEST_CASE("observer: null gradients are final too") {
  Recorder recorder;
  const Tensor p = parameter({1, 2}, 0, "p");
  const Tensor q = parameter({3, 4}, 1, "q");
  SUBCASE("of one parameter") {
    backward(sum(without_gradient(p) + q), recorder.options());
    CHECK(recorder.gradients[1].to_vector<double>() == Values{1, 1});
  }
  SUBCASE("below a null gradient") { backward(sum(without_gradient(tanh(p)) + q), recorder.options()); }
  SUBCASE("of all, with scale 0") {
    BackwardOptions options = recorder.options();
    options.scale = 0.0;
    backward(sum(p * q), options);
    CHECK_FALSE(recorder.gradients[1].defined());
  }
  CHECK(recorder.log.size() == 4);
  REQUIRE(recorder.gradients.contains(0));
  CHECK_FALSE(recorder.gradients[0].defined());
  CHECK(p.gradient_slot().state == GradientState::undefined);
}

TEST_CASE("observer: a null contribution beside a real one counts down") {
  Recorder recorder;
  const Tensor p = parameter({1, 2}, 0, "p");
  backward(sum(without_gradient(p) + p * 3), recorder.options());
  CHECK(recorder.contributions == Counts{{0, 2}});
  CHECK(recorder.log == Log{as_tested("begin cpu:0"), "final 0", as_tested("end cpu:0")});
  CHECK(recorder.gradients[0].to_vector<double>() == Values{3, 3});
}

TEST_CASE("observer: a local gradient from before is part of the final one") {
  Recorder recorder;
  const Tensor p = parameter({1, 2}, 0, "p");
  {
    const LocalAccumulation scope(&kGroup, 1.0);
    backward(sum(p * 10));
  }
  SUBCASE("with a gradient") {
    backward(sum(p * 1), recorder.options());
    CHECK(recorder.gradients[0].to_vector<double>() == Values{11, 11});
  }
  SUBCASE("with a null one") {
    backward(sum(without_gradient(p)), recorder.options());
    CHECK(recorder.gradients[0].to_vector<double>() == Values{10, 10});
  }
}

TEST_CASE("observer: a backward that fails tells it why") {
  Recorder recorder;
  const Tensor p = parameter({1, 2}, 0, "p");
  const Tensor q = parameter({1, 2}, 1, "q");
  CHECK_THROWS_WITH_AS(backward(sum(failing(p) * q), recorder.options()), "division by cucumber", std::runtime_error);
  CHECK(recorder.log == Log{as_tested("begin cpu:0"), "final 1", "failed"});
  CHECK(recorder.failure == "division by cucumber");
}

TEST_CASE("observer: its own exceptions end the backward") {
  Recorder recorder;
  const Tensor p = parameter({1, 2}, 0, "p");
  const Tensor q = parameter({1, 2}, 1, "q");
  SUBCASE("begin") {
    recorder.throw_at = "begin";
    CHECK_THROWS_WITH_AS(backward(sum(p * q), recorder.options()), "no peers", std::runtime_error);
    CHECK(recorder.log == Log{as_tested("begin cpu:0"), "failed"});
  }
  SUBCASE("final") {
    recorder.throw_at = "final";
    CHECK_THROWS_WITH_AS(backward(sum(tanh(p) * q), recorder.options()), "no peers", std::runtime_error);
    CHECK(recorder.log == Log{as_tested("begin cpu:0"), "final 1", "failed"});
  }
  recorder.throw_at.clear();
  backward(sum(p * 3), {.observer = &recorder, .owner = &kGroup});  // nothing is left behind
  CHECK(recorder.gradients[0].to_vector<double>() == Values{3, 3});
}

TEST_CASE("observer: what was released is refused before the first gradient, and heard of") {
  Recorder recorder;
  const Tensor p = parameter({1, 2}, 0, "p");
  const Tensor y = sum(p * p);
  backward(y, recorder.options());
  CHECK_THROWS_AS(backward(y, recorder.options()), AutodiffError);
  CHECK(recorder.log.back() == "failed");
  CHECK(p.grad().to_vector<double>() == Values{2, 4});
}

TEST_CASE("attached parameters: a plain backward refuses them by name") {
  const Tensor x = leaf({1, 2});
  const Tensor p = parameter({1, 2}, 0, "fc2.weight");
  CHECK_THROWS_WITH_AS(backward(sum(x * p)), doctest::Contains("\"fc2.weight\""), AutodiffError);
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(p.grad().defined());
  const Tensor inputs[] = {p};
  CHECK(grad(sum(x * p), inputs)[0].to_vector<double>() == Values{1, 2});  // local by nature
}

TEST_CASE("attached parameters: another group's observer refuses them by name") {
  Recorder recorder;
  const Tensor p = parameter({1, 2}, 0, "fc2.weight");
  const BackwardOptions options{.observer = &recorder, .owner = &kOtherGroup};
  CHECK_THROWS_WITH_AS(backward(sum(p * p), options), doctest::Contains("\"fc2.weight\""), AutodiffError);
  CHECK(recorder.log == Log{"failed"});
}

TEST_CASE("attached parameters: LocalAccumulation lets gradients add up, scaled") {
  const Tensor p = parameter({1, 2}, 0, "fc2.weight");
  LocalAccumulation scope(&kGroup, 0.5);
  CHECK_FALSE(scope.used());
  backward(sum(p * 4));
  CHECK(scope.used());
  backward(sum(p * 4), {.scale = 3.0});
  CHECK(p.grad().to_vector<double>() == Values{8, 8});
  {
    LocalAccumulation inner(&kOtherGroup, 1.0);
    CHECK_THROWS_WITH_AS(backward(sum(p * 4)), doctest::Contains("\"fc2.weight\""), AutodiffError);
    CHECK_FALSE(inner.used());
  }
  backward(sum(p * 4));
  CHECK(p.grad().to_vector<double>() == Values{10, 10});
}

TEST_CASE("attached parameters: a reduced gradient is not added to") {
  Recorder recorder;
  Tensor p = parameter({1, 2}, 0, "fc2.weight");
  backward(sum(p * 3), recorder.options());
  p.gradient_slot().state = GradientState::settled;
  const auto message = doctest::Contains("zero_grad");
  CHECK_THROWS_WITH_AS(backward(sum(p * 3), recorder.options()), message, AutodiffError);
  CHECK_THROWS_WITH_AS(backward(sum(p * 3), recorder.options()), doctest::Contains("\"fc2.weight\""), AutodiffError);
  {
    const LocalAccumulation scope(&kGroup, 1.0);
    CHECK_THROWS_WITH_AS(backward(sum(p * 3)), message, AutodiffError);
  }
  p.zero_grad();
  backward(sum(p * 5), recorder.options());
  CHECK(p.grad().to_vector<double>() == Values{5, 5});
}

TEST_CASE("attached parameters: one step's live on one device") {
  Recorder recorder;
  const Tensor p = parameter({1, 2}, 0, "here", test_device());
  const Tensor q = parameter({1, 2}, 1, "there", test_device(1));
  const Tensor y = sum(p * to(q, test_device()));
  CHECK_THROWS_WITH_AS(backward(y, recorder.options()), doctest::Contains(as_tested("cpu:1")), AutodiffError);
  CHECK(recorder.log == Log{"failed"});
  CHECK(recorder.failure.find("\"here\"") != std::string::npos);
  CHECK(recorder.failure.find("\"there\"") != std::string::npos);
  CHECK_FALSE(p.grad().defined());
}

TEST_CASE("observer: the device is the parameters', not the root's") {
  Recorder recorder;
  const Tensor q = parameter({1, 2}, 1, "there", test_device(1));
  backward(sum(to(q * q, test_device())), recorder.options());
  CHECK(recorder.log == Log{as_tested("begin cpu:1"), "final 1", as_tested("end cpu:1")});
  CHECK(recorder.gradients[1].device() == test_device(1));
}

TEST_CASE("observer: create_graph is refused") {
  Recorder recorder;
  const Tensor p = parameter({1}, 0, "p");
  BackwardOptions options = recorder.options();
  options.create_graph = true;
  CHECK_THROWS_WITH_AS(backward(p * p, options), doctest::Contains("create_graph"), AutodiffError);
  CHECK(recorder.log == Log{"failed"});
}

TEST_CASE("observer: a final gradient's event tells when it may be read") {
  struct Reader : Recorder {
    void on_gradient_final(Device device, ParameterId id, GradientRef reference) override {
      reference.ready.synchronize();
      value = reference.gradient.slice(0, 0, 1).item<double>();
      Recorder::on_gradient_final(device, id, std::move(reference));
    }
    double value = 0;
  } reader;
  const Tensor p = parameter({3}, 0, "p");
  backward(sum(tanh(p * 0) + p * p), reader.options());
  CHECK(reader.value == 6);
}

TEST_CASE("observer: hears while a function whose reads are unknown is still to run") {
  const auto identity = [](const Tensor& x) {
    return custom_function(
        "identity", {x}, [](std::span<const Array> in) { return in[0].copy(); },
        [](std::span<const Array>, const Array&, const Array& dy) { return std::vector<Array>{dy}; });
  };
  Recorder recorder;
  const Tensor early = parameter({1, 2}, 0, "early");
  const Tensor middle = parameter({1, 2}, 1, "middle");
  const Tensor late = parameter({3, 4}, 2, "late");
  (void)identity(leaf({1, 2}, {2}));  // of another graph
  backward(sum(identity(tanh(identity(early)) * middle) * late), recorder.options());
  CHECK(recorder.unknown_reads == std::map<std::uint32_t, bool>{{0, false}, {1, true}, {2, true}});
}

}  // namespace
}  // namespace tutti
