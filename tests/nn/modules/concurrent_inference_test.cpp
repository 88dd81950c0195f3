// SPDX-License-Identifier: Apache-2.0
// Several threads run one model on one device at the same time, and each gets what one thread alone gets. Run under
// ThreadSanitizer, this is the proof that reading a model writes nothing.
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/hash_embedding.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/modules/module_call.h>
#include <tutti/nn/normalization.h>
#include <tutti/nn/recurrent.h>
#include <tutti/nn/transformer.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <atomic>

using namespace tutti;

namespace {

struct Reader : Module {
  explicit Reader(Generator& random)
      : tokens(20, 8, random, {.device = test_device()}),
        hashed(8, {.table = {.device = test_device()}}),
        block(8, 2, random, {.causal = true, .dropout = 0.1, .device = test_device()}),
        lstm(8, 8, random, {.batch_first = true, .device = test_device()}),
        convolution(1, 3, {3, 3}, random, {.device = test_device()}),
        norm(3, {.device = test_device()}),
        dropout(0.5, random),
        head(8, 4, random, {.device = test_device()}) {}

  Tensor forward(const Tensor& ids) const {
    Tensor x = call(tokens, ids) + call(hashed, ids) * half;
    x = call(block, x);
    x = x + lstm.forward(x).sequence;
    const Tensor image = call(norm, call(convolution, x.expand_dims(1)));
    return call(head, call(dropout, x)) + mean(image) * half;
  }
  void visit(MemberVisitor& v) override {
    v.module("tokens", tokens);
    v.module("hashed", hashed);
    v.module("block", block);
    v.module("lstm", lstm);
    v.module("convolution", convolution);
    v.module("norm", norm);
    v.module("dropout", dropout);
    v.module("head", head);
  }

  Embedding tokens;
  HashEmbedding hashed;
  TransformerBlock block;
  LSTM lstm;
  Conv2d convolution;
  BatchNorm norm;
  Dropout dropout;
  Linear head;
  Tensor half{0.5};  // a literal, whose array is made when it is first needed
};

}  // namespace

TEST_CASE("modules: one model in evaluation mode serves several threads on one device") {
  constexpr int kThreads = 4;
  Generator random(1);
  Reader model(random);
  model.eval();
  std::vector<Tensor> inputs;
  for (int i = 0; i < kThreads; ++i) {
    std::vector<std::int64_t> ids;
    for (int k = 0; k < 12; ++k) ids.push_back((3 * k + i) % 20);
    inputs.push_back(Tensor(Array::from(ids, {2, 6}, test_device())));
  }
  std::vector<std::vector<float>> found(kThreads);
  std::atomic<int> different{0};
  testing::run_devices(kThreads, [&](std::size_t own) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> values;
      if (own % 2 == 0) {
        const NoGrad no_grad;
        values = model.forward(inputs[own]).to_vector<float>();
      } else {
        const Inference inference;
        values = model.forward(inputs[own]).to_vector<float>();
      }
      if (round == 0) found[own] = values;
      if (values != found[own]) ++different;
      const NoGrad no_grad;
      const Autocast narrow(DType::bf16);
      (void)model.forward(inputs[own]);
    }
  });
  CHECK(different == 0);
  const Inference inference;
  for (std::size_t t = 0; t < kThreads; ++t) CHECK(model.forward(inputs[t]).to_vector<float>() == found[t]);
}
