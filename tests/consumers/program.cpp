// SPDX-License-Identifier: Apache-2.0
// A program of somebody else: trains a small model on two CPU devices, and catches what it asks for in vain.
#include <tutti/tutti.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace tutti;

#ifdef STANDARD_AFTER
static_assert(__cplusplus > STANDARD_AFTER, "flags of the package came after the program's own standard, and undid it");
#endif

namespace {

double trained_loss() {
  GradientSync sync({cpu(0), cpu(1)});
  Generator initial(1);
  auto replicas = sync.replicate(Linear(8, 1, initial));
  std::vector<double> losses(2);
  const auto train = [&](std::size_t number) {
    const Device device = sync.devices()[number];
    Sgd optimizer(replicas[number].parameters(), 0.1);
    Generator random(2, number);
    for (int i = 0; i < 100; ++i) {
      const Tensor x(random.normal({16, 8}, DType::f32, device));
      optimizer.zero_grad();
      auto step = sync.step(device, 16);
      const Tensor loss = mean(square(replicas[number](x) - sum(x, 1, true)));
      step.backward(loss);
      optimizer.step();
      losses[number] = loss.item<float>();
    }
    sync.leave(device);
  };
  std::thread second([&] { train(1); });
  train(0);
  second.join();
  return losses[0] + losses[1];
}

/// The error's text, which crosses from the library as an exception of its own type.
template <class E, class F> std::string error_of(F&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  throw std::runtime_error("no error");
}

}  // namespace

// With the argument "cuda": a sum on the first CUDA device, or why there is none.
int main(int count, char** arguments) {
  if (count > 1 && std::strcmp(arguments[1], "cuda") == 0) {
    try {
      std::printf("the sum of 3 ones on cuda:0 is %g\n", sum(ones({3}, {.device = cuda(0)})).item<float>());
    } catch (const DeviceError& error) {
      std::puts(error.what());
    }
    return 0;
  }
  const double loss = trained_loss();
  const double first = ones({2, 3})[0][1].item<float>();  // of a temporary
  const std::string error = error_of<ShapeError>([] { (void)matmul(ones({2, 3}), ones({2, 3})); });
  std::printf("loss %g; %s\n", loss, error.c_str());
  return first == 1 && loss < 0.01 && error.starts_with("[matmul]") ? 0 : 1;
}
