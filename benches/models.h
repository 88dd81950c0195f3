// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/examples/language_models.h>
#include <tutti/examples/residual_network.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/module_list.h>
#include <tutti/nn/normalization.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/sgd.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::bench {

/// One training problem of the benches: what is trained, how, and on how much data a step.
struct Workload {
  const char* name;
  std::int64_t batch;  ///< examples per device and step
  Shape example;       ///< shape of one input
  Sequential (*make_model)(Generator&);
  std::unique_ptr<Optimizer> (*make_optimizer)(std::vector<Tensor> parameters);

  std::int64_t vocabulary = 0;  ///< inputs are tokens below it, each of which has a target; 0: see make_batch

  /// A batch of noise with random classes, 0 to 9.
  std::pair<Tensor, Tensor> make_batch(Generator& random, Device device) const {
    Shape shape = example;
    shape.insert(0, batch);
    if (vocabulary > 0)
      return {classes(random, shape, vocabulary, device), classes(random, {element_count(shape)}, vocabulary, device)};
    Tensor targets = classes(random, {batch}, 10, device);
    return {Tensor(random.normal(shape, DType::f32, device)), std::move(targets)};
  }

 private:
  static Tensor classes(Generator& random, const Shape& shape, std::int64_t below, Device device) {
    std::vector<std::int64_t> drawn;
    for (std::int64_t i = 0; i < element_count(shape); ++i)
      drawn.push_back(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(below))));
    return Tensor(Array::from(drawn, shape, device));
  }
};

inline std::unique_ptr<Optimizer> momentum_sgd(std::vector<Tensor> parameters) {
  return std::make_unique<Sgd>(std::move(parameters), 0.01, SgdOptions{.momentum = 0.9});
}

inline std::unique_ptr<Optimizer> adamw(std::vector<Tensor> parameters) {
  return std::make_unique<AdamW>(std::move(parameters), 1e-3);
}

/// MLP 8-8-8-8-8-10, batch 8, SGD with momentum: hardly more than dispatch.
inline const Workload kTinyMlp{"mlp_4x8_10",
                               8,
                               {8},
                               [](Generator& random) {
                                 return Sequential(Linear(8, 8, random), ReLU(), Linear(8, 8, random), ReLU(),
                                                   Linear(8, 8, random), ReLU(), Linear(8, 8, random), ReLU(),
                                                   Linear(8, 10, random));
                               },
                               &momentum_sgd};

/// MLP 784-512-512-10, batch 64, SGD with momentum: 669,706 values.
inline const Workload kSmallMlp{"mlp_784_512_512_10",
                                64,
                                {784},
                                [](Generator& random) {
                                  return Sequential(Linear(784, 512, random), ReLU(), Linear(512, 512, random), ReLU(),
                                                    Linear(512, 10, random));
                                },
                                &momentum_sgd};

/// MLP with four hidden layers of 1024, batch 256, AdamW: 3,962,890 values.
inline const Workload kLargeMlp{"mlp_784_4x1024_10",
                                256,
                                {784},
                                [](Generator& random) {
                                  return Sequential(Linear(784, 1024, random), ReLU(), Linear(1024, 1024, random),
                                                    ReLU(), Linear(1024, 1024, random), ReLU(),
                                                    Linear(1024, 1024, random), ReLU(), Linear(1024, 10, random));
                                },
                                &adamw};

/// A model of text whose logits of all tokens are rows, [n * t, vocabulary].
template <class Model> class Flat : public Layer {
 public:
  Flat(const text::ModelOptions& options, Generator& random) : model_(options, random) {}
  Tensor compute(const Tensor& tokens) const override {
    const Tensor logits = model_(tokens);
    return logits.reshape({-1, logits.length(2)});
  }
  void visit(MemberVisitor& v) override { v.module("model", model_); }

 private:
  Model model_;
};

/// GPT of 4 layers, 128 features, 4 heads, 65 characters, 8 sequences of 128, AdamW: 826,368 values.
inline const Workload kGpt{"gpt_4x128",
                           8,
                           {128},
                           [](Generator& random) {
                             return Sequential(Flat<text::Gpt>(
                                 {.vocabulary = 65, .context = 128, .features = 128, .heads = 4, .layers = 4}, random));
                           },
                           &adamw,
                           65};

/// GPT of 6 layers, 384 features, 6 heads, 65 characters, 4 sequences of 256, AdamW: 10.8 million values.
inline const Workload kLargeGpt{
    "gpt_6x384",
    4,
    {256},
    [](Generator& random) {
      return Sequential(
          Flat<text::Gpt>({.vocabulary = 65, .context = 256, .features = 384, .heads = 6, .layers = 6}, random));
    },
    &adamw,
    65};

/// LSTM of 2 layers of 256, 65 characters, 32 sequences of 64, AdamW: 1.1 million values.
inline const Workload kLstm{
    "lstm_2x256",
    32,
    {64},
    [](Generator& random) {
      return Sequential(Flat<text::Lstm>({.vocabulary = 65, .context = 64, .features = 256, .layers = 2}, random));
    },
    &adamw,
    65};

/// ResNet-18 for images of 32 x 32 (He et al. 2016): a convolution of 3 x 3 to 64 channels, then two blocks each of 64,
/// 128, 256 and 512.
class ResNet18 : public Layer {
 public:
  explicit ResNet18(Generator& random)
      : stem_(3, 64, 3, random, {.padding = 1, .bias = false}), norm_(64), output_(512, 10, random) {
    std::int64_t in = 64;
    for (const std::int64_t out : {64, 128, 256, 512})
      for (const std::int64_t stride : {out == 64 ? 1 : 2, 1}) {
        blocks_.append(digits::ResidualBlock(in, out, stride, random));
        in = out;
      }
  }
  Tensor compute(const Tensor& images) const override {
    Tensor x = relu(norm_(stem_(images)));
    for (const digits::ResidualBlock& block : blocks_) x = block(x);
    return output_(mean(x, {2, 3}));
  }
  void visit(MemberVisitor& v) override {
    v.module("stem", stem_);
    v.module("norm", norm_);
    v.module("blocks", blocks_);
    v.module("output", output_);
  }

 private:
  Conv2d stem_;
  BatchNorm norm_;
  ModuleList<digits::ResidualBlock> blocks_;
  Linear output_;
};

/// ResNet-18 on 32 x 32, batch 32, SGD with momentum: 11.2 million values.
inline const Workload kResNet18{
    "resnet_18", 32, {3, 32, 32}, [](Generator& random) { return Sequential(ResNet18(random)); }, &momentum_sgd};

/// CNN 1-32-64 on 28 x 28, batch 64, SGD with momentum: 50,186 values.
inline const Workload kCnn{"cnn_1_32_64",
                           64,
                           {1, 28, 28},
                           [](Generator& random) {
                             return Sequential(Conv2d(1, 32, 3, random, {.padding = 1}), ReLU(), MaxPool2d(2),
                                               Conv2d(32, 64, 3, random, {.padding = 1}), ReLU(), MaxPool2d(2),
                                               Flatten(), Linear(3136, 10, random));
                           },
                           &momentum_sgd};

/// The network of examples/digits, batch 64, AdamW: 38,282 values.
inline const Workload kDigitsCnn{
    "digits_cnn",
    64,
    {1, 8, 8},
    [](Generator& random) {
      return Sequential(Conv2d(1, 16, 3, random, {.padding = 1}), ReLU(), Conv2d(16, 32, 3, random, {.padding = 1}),
                        ReLU(), MaxPool2d(2), Flatten(), Linear(512, 64, random), ReLU(), Linear(64, 10, random));
    },
    &adamw};

/// All of them.
inline constexpr const Workload* kWorkloads[] = {&kTinyMlp, &kSmallMlp, &kLargeMlp, &kDigitsCnn, &kCnn,
                                                 &kGpt,     &kLargeGpt, &kLstm,     &kResNet18};

/// The one of this name; null: none.
inline const Workload* workload_of(std::string_view name) {
  for (const Workload* each : kWorkloads)
    if (name == each->name) return each;
  return nullptr;
}

}  // namespace tutti::bench
