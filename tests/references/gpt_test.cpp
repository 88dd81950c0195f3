// SPDX-License-Identifier: Apache-2.0
// A small GPT whose weights PyTorch made: as its file comes, to the same logits, gradients and losses in training.
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/exchange/module_state.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/transformer.h>
#include <tutti/optim/adamw.h>
#include <tutti/tests/references/match.h>
#include <tutti/tests/references/reference_file.h>
#include <tutti/tests/test_devices.h>

#include <fmt/format.h>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::int64_t kVocabulary = 29;
constexpr std::int64_t kLength = 12;
constexpr std::int64_t kWidth = 16;
constexpr std::int64_t kHeads = 4;

class Gpt : public Module {
 public:
  explicit Gpt(Generator& random)
      : tokens_(kVocabulary, kWidth, random),
        positions_(kLength, kWidth, random),
        blocks_{TransformerBlock(kWidth, kHeads, random, {.causal = true}),
                TransformerBlock(kWidth, kHeads, random, {.causal = true})},
        norm_(kWidth),
        head_(kWidth, kVocabulary, random, {.bias = false}) {}

  Tensor forward(const Tensor& tokens) const {
    const Tensor places(Array::arange(tokens.length(1), DType::i64, tokens.device()));
    Tensor x = tokens_.forward(tokens) + positions_.forward(places);
    for (const TransformerBlock& block : blocks_) x = block.forward(x);
    return head_.forward(norm_.forward(x));
  }

  void visit(MemberVisitor& visitor) override {
    visitor.module("tokens", tokens_);
    visitor.module("positions", positions_);
    for (std::size_t i = 0; i < blocks_.size(); ++i) visitor.module(fmt::format("blocks.{}", i), blocks_[i]);
    visitor.module("norm", norm_);
    visitor.module("head", head_);
  }

 private:
  Embedding tokens_;
  Embedding positions_;
  std::vector<TransformerBlock> blocks_;
  LayerNorm norm_;
  Linear head_;
};

Gpt loaded_model() {
  Generator random(1);
  Gpt model(random);
  load_state(model, reference_path("gpt"));
  model.detach_members_to(test_device());
  return model;
}

struct Prediction {
  Tensor logits;
  Tensor loss;
};

Prediction predict(const Gpt& model, const Tensor& text) {
  const Tensor logits = model.forward(text.slice(1, 0, kLength - 1));
  const Tensor targets = text.slice(1, 1, kLength).reshape({-1});
  return {logits, cross_entropy(logits.reshape({-1, kVocabulary}), targets)};
}

}  // namespace

TEST_CASE("references: a GPT of PyTorch's weights has its logits, loss and gradients") {
  const auto expected = reference_arrays("gpt_results");
  Gpt model = loaded_model();
  const Prediction found = predict(model, Tensor(expected.at("tokens").to(test_device())));
  CHECK(difference(expected.at("logits"), found.logits.array(), {}) == "");
  CHECK(difference(expected.at("loss"), found.loss.array(), {}) == "");
  backward(found.loss);
  for (const auto& [name, parameter] : model.named_parameters()) {
    CAPTURE(name);
    CHECK(difference(expected.at("gradient." + name), parameter.grad().array(), {.relative = 1e-5}) == "");
  }
}

TEST_CASE("references: a GPT of PyTorch's weights is trained along its losses") {
  const auto expected = reference_arrays("gpt_results");
  Gpt model = loaded_model();
  const Tensor text(expected.at("tokens").to(test_device()));
  AdamW optimizer(model.parameters(), 0.01, {.weight_decay = 0.1});
  for (const float loss : expected.at("losses").to_vector<float>()) {
    optimizer.zero_grad();
    const Prediction found = predict(model, text);
    CHECK(found.loss.item<float>() == doctest::Approx(loss).epsilon(1e-4));
    backward(found.loss);
    optimizer.step();
  }
}
