// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/linear.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/processes/training_process.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

namespace tutti::testing {

/// What ranks over MPI train, and the test in one process, to compare with: gradients that are sparse, long enough for
/// several pieces, and short.
struct WordsModel : Module {
  explicit WordsModel(Generator random)
      : words(500, 24, random, {.sparse = true}), wide(24, 30'000, random), output(24, 3, random) {}
  Tensor forward(const Tensor& tokens) const {
    const Tensor x = tanh(words.forward(tokens));
    return sum(output.forward(x)) + mean(square(wide.forward(x)));
  }
  void visit(MemberVisitor& v) override {
    v.module("words", words);
    v.module("wide", wide);
    v.module("output", output);
  }
  Embedding words;
  Linear wide;
  Linear output;
};

/// Takes steps of one device, and a collective of all devices after each. `fails`: throws in the backward of that step.
/// `before`: called before each step.
inline void train_words(
    GradientSync& sync, WordsModel& model, Device device, std::size_t number, int steps, int fails = -1,
    const std::function<void(int)>& before = [](int) {}) {
  Sgd optimizer(model.parameters(), 0.01);
  for (int i = 0; i < steps; ++i) {
    before(i);
    Generator random(7, static_cast<std::uint64_t>(i) * 64 + number);
    std::vector<std::int64_t> tokens;
    for (std::size_t t = 0; t < 10 + 5 * number; ++t) tokens.push_back(static_cast<std::int64_t>(random.below(500)));
    const auto count = static_cast<std::int64_t>(tokens.size());
    optimizer.zero_grad();
    auto step = sync.step(device, 1.0 + static_cast<double>(number));
    if (i == fails) throw std::runtime_error("this device fails");
    step.backward(model.forward(Tensor(Array::from(tokens, {count}, device))));
    optimizer.step();
    const Tensor own = Tensor(Array::full({30'000}, static_cast<double>(number + 1), DType::f32, device));
    const Tensor all = sync.all_gather(device, own).resolve();
    const auto values = all.array().to_vector<float>();
    for (std::size_t v = 0; v < values.size(); ++v)
      if (values[v] != static_cast<float>(v / 30'000 + 1)) throw std::runtime_error("a gathered value is another one");
  }
  sync.leave(device);
}

/// Digest of the parameters that these devices of this process train. `first`: number of the first of them.
inline std::uint64_t words_digest(GradientSync& sync, std::size_t first, int steps, int fails = -1) {
  auto replicas = sync.replicate(WordsModel(Generator(1)));
  run_devices(replicas.size(), [&](std::size_t place) {
    train_words(sync, replicas[place], sync.devices()[place], first + place, steps, place == 0 ? fails : -1);
  });
  return digest_of(replicas[0]);
}

}  // namespace tutti::testing
