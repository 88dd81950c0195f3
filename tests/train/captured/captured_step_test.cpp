// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/captured_step.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/checkpoint.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/attention.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/normalization.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/recurrent.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/sgd.h>

#include <doctest/doctest.h>

#include <optional>

#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/captured/captured_problem.h>

using namespace tutti;
using namespace tutti::testing;

namespace {

template <class M> Tensor classified(Module& model, std::span<const Tensor> batch) {
  return cross_entropy(static_cast<M&>(model).forward(batch[0]), batch[1]);
}

const Problem kMlp{[](Generator& random) {
                     return std::make_unique<Sequential>(Linear(6, 16, random), ReLU(), Dropout(0.3, random),
                                                         Linear(16, 4, random));
                   },
                   &classified<Sequential>,
                   [](Generator& random, std::int64_t size) {
                     return TensorBatch{normal(random, {size, 6}), classes(random, {size}, 4)};
                   }};

const Problem kLeNet{[](Generator& random) {
                       return std::make_unique<Sequential>(
                           Conv2d(1, 4, 3, random, {.padding = 1}), BatchNorm(4), ReLU(), MaxPool2d(2),
                           Conv2d(4, 6, 3, random, {.padding = 1}), ReLU(), MaxPool2d(2), Flatten(),
                           Linear(24, 16, random), ReLU(), Linear(16, 10, random));
                     },
                     &classified<Sequential>,
                     [](Generator& random, std::int64_t size) {
                       return TensorBatch{normal(random, {size, 1, 8, 8}), classes(random, {size}, 10)};
                     }};

/// Sequences of 5 steps to a class, read by a GRU in both directions and an LSTM.
struct SequenceReader : Module {
  GRU first;
  LSTM second;
  Linear output;

  explicit SequenceReader(Generator& random)
      : first(6, 5, random, {.bidirectional = true}), second(10, 7, random), output(7, 4, random) {}
  Tensor forward(const Tensor& x) const {
    return output(squeeze(second(first(transpose(x, 0, 1)).sequence).state.hidden, {0}));
  }
  void visit(MemberVisitor& v) override {
    v.module("first", first);
    v.module("second", second);
    v.module("output", output);
  }
};

const Problem kSequences{[](Generator& random) { return std::make_unique<SequenceReader>(random); },
                         &classified<SequenceReader>,
                         [](Generator& random, std::int64_t size) {
                           return TensorBatch{normal(random, {size, 5, 6}), classes(random, {size}, 4)};
                         }};

/// Words to the next word, with dropout on attention weights too.
struct SmallTransformer : Module {
  Embedding words;
  MultiheadAttention attention;
  LayerNorm norm;
  Dropout dropout;
  Linear output;

  explicit SmallTransformer(Generator& random)
      : words(9, 8, random),
        attention(8, 2, random, {.dropout = 0.2}),
        norm(8),
        dropout(0.1, random),
        output(8, 9, random) {}
  Tensor forward(const Tensor& ids) const {
    const Tensor x = words.forward(ids);
    const Tensor mixed = x + dropout.forward(attention.forward(norm.forward(x)));
    return output.forward(mixed);
  }
  void visit(MemberVisitor& v) override {
    v.module("words", words);
    v.module("attention", attention);
    v.module("norm", norm);
    v.module("dropout", dropout);
    v.module("output", output);
  }
};

const Problem kTransformer{[](Generator& random) { return std::make_unique<SmallTransformer>(random); },
                           [](Module& model, std::span<const Tensor> batch) {
                             const Tensor scores = static_cast<SmallTransformer&>(model).forward(batch[0]);
                             return cross_entropy(scores.reshape({-1, 9}), batch[1].reshape({-1}));
                           },
                           [](Generator& random, std::int64_t size) {
                             return TensorBatch{classes(random, {size, 5}, 9), classes(random, {size, 5}, 9)};
                           }};

/// Runs again in backward, with the same dropout.
const Problem kCheckpointed{kMlp.make,
                            [](Module& model, std::span<const Tensor> batch) {
                              auto& layers = static_cast<Sequential&>(model);
                              const auto all = [&](const Tensor& x) { return layers.forward(x); };
                              return cross_entropy(checkpoint(all, batch[0]), batch[1]);
                            },
                            kMlp.batch};

Tensor zeros_here(const Shape& shape) { return zeros(shape, {.device = test_device()}); }

/// One weight, and whatever a test does with it.
struct OneWeight : Module {
  Tensor weight = Tensor(Array::full({2, 3}, 0.5, DType::f32, test_device()), true);
  Tensor seen = zeros_here({2, 3});
  void visit(MemberVisitor& v) override {
    v.parameter("weight", weight);
    v.buffer("seen", seen);
  }
};

std::string refusal(CapturedStep& step, const TensorBatch& batch, int steps = 4) {
  try {
    for (int i = 0; i < steps; ++i) step(batch);
  } catch (const CaptureError& error) {
    return error.what();
  }
  return "none";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

void check_refused(CapturedStep& step, const TensorBatch& batch, const char* part) {
  const std::string text = refusal(step, batch);
  INFO(text);
  CHECK(has(text, part));
}

}  // namespace

TEST_CASE("captured step: an MLP with dropout trains as it does eagerly") { check_same(kMlp); }
TEST_CASE("captured step: a LeNet with running statistics trains as it does eagerly") { check_same(kLeNet); }
TEST_CASE("captured step: a transformer with dropout trains as it does eagerly") { check_same(kTransformer); }
TEST_CASE("captured step: recurrent networks train as they do eagerly") { check_same(kSequences); }
TEST_CASE("captured step: a checkpoint's second run drops what its first did") { check_same(kCheckpointed); }
TEST_CASE("captured step: micro-batches accumulate as they do eagerly") { check_same(kMlp, 3); }

TEST_CASE("captured step: what depends on the host is refused, and said to be") {
  OneWeight model;
  const TensorBatch batch{zeros_here({2, 3})};
  const auto step_of = [&](auto loss) {
    return CapturedStep(
        model, [&, loss](std::span<const Tensor> given) { return std::vector{loss(model.weight * given[0])}; });
  };
  SUBCASE("a value read") {
    CapturedStep step = step_of([](const Tensor& x) { return x.max().item<float>() > 1 ? x.sum() : x.mean(); });
    check_refused(step, batch, "on the host: what depends on its value");
  }
  SUBCASE("a shape that is counted") {
    CapturedStep step = step_of([](const Tensor& x) { return masked_select(x, x >= 0).sum(); });
    check_refused(step, batch, "on the host: what depends on its value");
  }
  SUBCASE("values from the host") {
    CapturedStep step = step_of([](const Tensor& x) {
      return (x * Tensor(Array::from(std::vector<float>{1, 2, 3}, {3}, test_device()))).sum();
    });
    check_refused(step, batch, "from the host, whose values");
  }
  SUBCASE("a random number on the host") {
    Generator random(1);
    CapturedStep step = step_of([&](const Tensor& x) { return (x * (1.0 + double(random.below(3)))).sum(); });
    check_refused(step, batch, "random number on the host");
  }
  SUBCASE("a number that changes") {
    double factor = 1;
    CapturedStep step = step_of([&](const Tensor& x) { return (x * (factor += 1)).sum(); });
    check_refused(step, batch, "had other numbers");
  }
  SUBCASE("a branch that changes") {
    int steps = 0;
    CapturedStep step = step_of([&](const Tensor& x) { return ++steps > 2 ? exp(x).sum() : x.sum(); });
    check_refused(step, batch, "then exp");
  }
  SUBCASE("a tensor that is kept") {
    Tensor kept;
    CapturedStep step = step_of([&](const Tensor& x) {
      kept = (x * 2.0).detach();
      return x.sum();
    });
    check_refused(step, batch, "1 tensors that the step made are kept");
  }
  SUBCASE("another leaf") {
    const Tensor other(Array::full({2, 3}, 1, DType::f32, test_device()), true);
    CapturedStep step = step_of([&](const Tensor& x) { return (x * other).sum(); });
    check_refused(step, batch, "is no parameter of the captured step's model");
  }
  SUBCASE("an optimizer's step") {
    OneWeight other;
    Sgd optimizer(other.parameters(), 0.1);
    backward(other.weight.sum());
    CapturedStep step = step_of([&](const Tensor& x) {
      optimizer.step();
      return x.sum();
    });
    check_refused(step, batch, "an optimizer steps within the step");
  }
  SUBCASE("a backward of its own") {
    CapturedStep step = step_of([&](const Tensor& x) {
      backward((model.weight * 2.0).sum());
      return x.sum();
    });
    check_refused(step, batch, "called within a captured step");
  }
  SUBCASE("none of these, but constants of shapes") {
    CapturedStep step =
        step_of([](const Tensor& x) { return (x * Tensor(Array::arange(3, DType::f32, test_device())) * 0.5).sum(); });
    CHECK(refusal(step, batch) == "none");
    CHECK(step.report().replayed == 1);
  }
}

TEST_CASE("captured step: what replays depend on is looked at in each") {
  OneWeight model;
  auto random = std::make_optional<Generator>(3);
  const auto dropped = [&](std::span<const Tensor> batch) {
    const Tensor x = dropout(model.weight * batch[0], 0.5, *random, true);
    return std::vector{x.sum(), x};
  };
  CapturedStep step(model, dropped, {.check_every = 0});
  const Tensor ones(Array::full({2, 3}, 1, DType::f32, test_device()));
  const auto take = [&](const Tensor& x) {
    model.zero_grad();
    return step({x});
  };
  for (int i = 0; i < 3; ++i) take(ones);
  REQUIRE(step.report().captured == 2);
  take(ones);
  REQUIRE(step.report().replayed == 1);

  SUBCASE("a batch of another shape or type") {
    take(Tensor(Array::full({1, 3}, 1, DType::f32, test_device())));
    CHECK(step.report().eager == 2);
    take(Tensor(Array::full({2, 3}, 1, DType::f64, test_device())));
    CHECK(step.report().eager == 3);
    take(ones);
    CHECK(step.report().replayed == 2);
  }
  SUBCASE("a parameter with another array") {
    model.weight.set_array(Array::full({2, 3}, 2, DType::f32, test_device()));
    CHECK(take(ones)[0].item<float>() >= 0);
    CHECK(has(step.report().reason, "\"weight\" was given another array"));
    CHECK(step.report().captured == 3);
  }
  SUBCASE("a generator that is gone") {
    random.emplace(4);
    take(ones);
    CHECK(has(step.report().reason, "generator"));
  }
  SUBCASE("a generator that draws elsewhere") {
    Generator copy = *random;
    (void)random->uniform({5}, DType::f32, test_device());
    (void)copy.uniform({5}, DType::f32, test_device());
    const Tensor expected = dropout(model.weight * ones, 0.5, copy, true);
    CHECK(take(ones)[1].to_vector<float>() == expected.to_vector<float>());
    CHECK(step.report().replayed == 2);
  }
  SUBCASE("a gradient that is held stays what it is") {
    const Tensor held = model.weight.grad();
    const auto before = held.to_vector<float>();
    take(Tensor(Array::full({2, 3}, 5, DType::f32, test_device())));
    CHECK(held.to_vector<float>() == before);
    CHECK(has(step.report().reason, "another place"));
  }
  SUBCASE("a gradient that was not zeroed is added to") {
    const auto before = model.weight.grad().to_vector<float>();
    Generator copy = *random;
    const Tensor kept(copy.bernoulli({2, 3}, 0.5, test_device()));
    step({ones});
    const auto after = model.weight.grad().to_vector<float>();
    const auto mask = kept.to_vector<bool>();
    for (std::size_t i = 0; i < after.size(); ++i) CHECK(after[i] == before[i] + (mask[i] ? 2.0F : 0.0F));
  }
  SUBCASE("an output is the caller's") {
    const auto first = take(ones);
    const auto values = first[1].to_vector<float>();
    take(Tensor(Array::full({2, 3}, 9, DType::f32, test_device())));
    CHECK(first[1].to_vector<float>() == values);
  }
  SUBCASE("what the caller says") {
    step.invalidate("evaluation");
    CHECK(step.report().memory == 0);
    take(ones);
    CHECK(step.report().captured == 3);
  }
}

TEST_CASE("captured step: a write in a replay is noticed by a graph that saved what it wrote to") {
  OneWeight model;
  CapturedStep step(model, [&](std::span<const Tensor> batch) {
    model.seen.copy_(batch[0]);
    return std::vector{(model.weight * model.seen).sum()};
  });
  const Tensor x(Array::full({2, 3}, 4, DType::f32, test_device()));
  for (int i = 0; i < 3; ++i) {
    model.zero_grad();
    step({x});
  }
  model.zero_grad();
  const Tensor leaf(Array::full({2, 3}, 1, DType::f32, test_device()), true);
  const Tensor loss = (leaf * model.seen).sum();
  step({x});
  CHECK(step.report().replayed == 1);
  CHECK_THROWS_AS(backward(loss), AutodiffError);
}

TEST_CASE("captured step: a failure leaves the thread as it was") {
  OneWeight model;
  bool fails = false;
  CapturedStep step(model, [&](std::span<const Tensor> batch) {
    if (fails) throw DataError("no data");
    return std::vector{(model.weight * batch[0]).sum()};
  });
  const TensorBatch batch{zeros_here({2, 3})};
  step(batch);
  fails = true;
  CHECK_THROWS_AS(step(batch), DataError);
  CHECK(zeros_here({3}).to_vector<float>() == std::vector<float>(3, 0.0F));
  backward((model.weight * 3.0).sum());
  fails = false;
  for (int i = 0; i < 3; ++i) {
    model.zero_grad();
    step(batch);
  }
  CHECK(step.report().replayed == 1);
}
