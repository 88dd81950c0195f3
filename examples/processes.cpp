// SPDX-License-Identifier: Apache-2.0
// Trains a network on 8x8 digits in as many processes as a launcher has started, on one CPU device in each:
//   tutti launch -n 2 -- build/release/examples/processes
// Alone it trains on one device. The parameters are, bit by bit, those that one process with as many devices gets.
#include <tutti/tutti.h>

#include <iostream>

using namespace tutti;

struct Classifier : Layer {
  explicit Classifier(Generator& random) : hidden(64, 128, random), output(128, 10, random) {}
  Tensor compute(const Tensor& x) const override { return output(relu(hidden(x.flatten(1)))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
  }
  Linear hidden, output;
};

int main() {
  ProcessGroup processes = ProcessGroup::from_environment();
  const Device device = cpu();
  GradientSync sync(processes, {device});
  const auto [training, test] = split(load_digits("examples/data/digits.csv.gz"), 0.8, 1);
  const BatchStream data(training, {.batch = 32, .devices = {device}, .world = sync.world()});
  Generator random(1);  // the same in every process: so are the parameters
  auto replicas = sync.replicate(Classifier(random));
  Classifier& model = replicas[0];
  Sgd optimizer(model.parameters(), 0.1, {.momentum = 0.9});
  for (int epoch = 0; epoch < 10; ++epoch) {
    const auto batches = data.epoch(epoch);
    for (int i = 0; i < batches.steps(); ++i) {
      const Batch batch = batches.batch(i);
      optimizer.zero_grad();
      auto step = sync.step(device, batch.weight());
      step.backward(cross_entropy(model(batch.inputs), batch.targets));
      optimizer.step();
    }
  }
  sync.leave(device);

  if (processes.rank() != 0) return 0;
  const Inference inference;
  const Tensor digits = argmax(model(Tensor(test.inputs).to(device)), -1);
  const Tensor right = mean(digits == Tensor(test.targets).to(device));
  std::cout << processes.size() << " processes, test accuracy: " << 100 * right.item() << " %\n";
}
