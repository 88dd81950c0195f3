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
#include <tutti/tests/exchange/python.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/references/match.h>
#include <tutti/tests/references/reference_file.h>
#include <tutti/tests/test_devices.h>

#include <fmt/format.h>

#include <bit>
#include <map>

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

/// One step; the loss before it.
double train(const Gpt& model, AdamW& optimizer, const Tensor& text) {
  optimizer.zero_grad();
  const Tensor loss = predict(model, text).loss;
  backward(loss);
  optimizer.step();
  return loss.item<double>();
}

/// With weights that PyTorch did not make.
Gpt trained_model(const Tensor& text) {
  Gpt model = loaded_model();
  AdamW optimizer(model.parameters(), 0.01);
  for (int step = 0; step < 3; ++step) train(model, optimizer, text);
  return model;
}

std::map<std::string, Array> by_name(const NamedArrays& arrays) { return {arrays.begin(), arrays.end()}; }

/// Of f32.
std::vector<std::uint32_t> bits(const Array& array) {
  std::vector<std::uint32_t> all;
  for (const float value : array.to_vector<float>()) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

void check_same(const std::map<std::string, Array>& found, const std::map<std::string, Array>& expected) {
  CHECK(found.size() == expected.size());
  for (const auto& [name, array] : expected) {
    CAPTURE(name);
    REQUIRE(found.count(name) == 1);
    CHECK(found.at(name).shape() == array.shape());
    CHECK(found.at(name).dtype() == array.dtype());
    CHECK(bits(found.at(name)) == bits(array));
  }
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
    const double found = train(model, optimizer, text);
    CHECK(found == doctest::Approx(loss).epsilon(1e-4));
  }
}

TEST_CASE("references: a GPT of PyTorch's weights is saved as PyTorch's file has it: names, shapes and bits") {
  const TemporaryFolder folder;
  Gpt model = loaded_model();
  save_state(model, folder.file("gpt.safetensors"));
  check_same(by_name(read_safetensors(folder.file("gpt.safetensors")).arrays), reference_arrays("gpt"));
}

TEST_CASE("references: a trained GPT goes through a file bit by bit") {
  const auto expected = reference_arrays("gpt_results");
  const Tensor text(expected.at("tokens").to(test_device()));
  const TemporaryFolder folder;
  Gpt trained = trained_model(text);
  save_state(trained, folder.file("gpt.safetensors"));
  Gpt model = loaded_model();
  CHECK(bits(predict(model, text).logits.array()) != bits(predict(trained, text).logits.array()));
  CHECK(load_state(model, folder.file("gpt.safetensors")).empty());
  check_same(by_name(module_state(model)), by_name(module_state(trained)));
  CHECK(bits(predict(model, text).logits.array()) == bits(predict(trained, text).logits.array()));
}

TEST_CASE("references: PyTorch loads a GPT that was trained here, and has its logits" *
          doctest::skip(!python_has("torch") || !python_has("safetensors"))) {
  const Tensor text(reference_arrays("gpt_results").at("tokens").to(test_device()));
  const TemporaryFolder folder;
  Gpt model = trained_model(text);
  save_state(model, folder.file("gpt.safetensors"));
  run_python(R"(
import sys
from safetensors.torch import load_file, save_file
sys.path.insert(0, 'tools/references')
from gpt import SIZES, Gpt
model = Gpt(**SIZES)
model.load_state_dict(load_file(sys.argv[1]), strict=True)
tokens = load_file(sys.argv[2])['tokens']
save_file({'logits': model(tokens[:, :-1]).detach().contiguous()}, sys.argv[3])
)",
             {folder.file("gpt.safetensors"), reference_path("gpt_results"), folder.file("logits")});
  const Array logits = by_name(read_safetensors(folder.file("logits")).arrays).at("logits");
  CHECK(difference(logits, predict(model, text).logits.array(), {.relative = 1e-5}) == "");
}
