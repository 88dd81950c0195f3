// SPDX-License-Identifier: Apache-2.0
// Trains a network on 8x8 digits, on two CPU devices whose gradients are averaged: what the README shows.
#include <tutti/tutti.h>

#include <iostream>

using namespace tutti;

// [readme]
struct Classifier : Layer {
  explicit Classifier(Generator& random) : hidden(64, 128, random), output(128, 10, random) {}
  Tensor compute(const Tensor& x) const override { return output(relu(hidden(x.flatten(1)))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
  }
  Linear hidden, output;
};

void train(Classifier& model, const BatchStream& data, GradientSync& sync, std::size_t device) {
  Sgd optimizer(model.parameters(), 0.1, {.momentum = 0.9});
  for (int epoch = 0; epoch < 10; ++epoch) {
    const auto batches = data.epoch(epoch);
    for (int i = 0; i < batches.steps(); ++i) {
      const Batch batch = batches.batch(i, device);
      optimizer.zero_grad();
      auto step = sync.step(data.devices()[device], batch.weight());
      step.backward(cross_entropy(model(batch.inputs), batch.targets));  // reduces gradients while it goes on
      optimizer.step();
    }
  }
  sync.leave(data.devices()[device]);  // the other may go on
}
// [/readme]

int main() {
  const auto [training, test] = split(load_digits("examples/data/digits.csv.gz"), 0.8, 1);
  const BatchStream data(training, {.batch = 32, .devices = {cpu(0), cpu(1)}});
  Generator random(1);
  GradientSync sync(data.devices());
  auto replicas = sync.replicate(Classifier(random));
  on_every_device(sync, [&](std::size_t device) { train(replicas[device], data, sync, device); });

  const Inference inference;
  const Tensor digits = argmax(replicas[0](Tensor(test.inputs)), -1);
  const Tensor right = mean(digits == Tensor(test.targets));
  std::cout << "test accuracy: " << 100 * right.item() << " %\n";
}
