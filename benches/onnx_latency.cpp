// SPDX-License-Identifier: Apache-2.0
// Latency of a model of an ONNX file with one input:
//   onnx_latency MODEL.onnx RUNS LENGTH...
// prints one line of JSON: median and 99th percentile in microseconds, as it is and replayed by CapturedForward, of an
// f32 input with these lengths, on one thread; null where it cannot be captured. What it is compared with:
// peers/onnx_latency.py.
#include <tutti/backend/error.h>
#include <tutti/backend/random.h>
#include <tutti/backend/registry.h>
#include <tutti/nn/captured_forward.h>
#include <tutti/onnx/onnx_model.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

using namespace tutti;

namespace {

/// "[median, percentile]" of so many runs, after a tenth as many that are not timed.
template <class Run> std::string latency(int runs, const Run& run) {
  std::vector<double> microseconds;
  for (int i = 0; i < runs + runs / 10 + 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    synchronize(cpu());
    const auto end = std::chrono::steady_clock::now();
    if (i >= runs / 10 + 5) microseconds.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
  }
  std::ranges::sort(microseconds);
  const std::size_t last = microseconds.size() - 1;
  return "[" + std::to_string(microseconds[last / 2]) + ", " + std::to_string(microseconds[last * 99 / 100]) + "]";
}

}  // namespace

int main(int count, char** words) try {
  const int runs = count > 3 ? std::atoi(words[2]) : 0;
  if (runs < 1) {
    std::cerr << "usage: onnx_latency MODEL.onnx RUNS LENGTH...\n";
    return 2;
  }
  Shape shape;
  for (int i = 3; i < count; ++i) shape.push_back(std::atoll(words[i]));
  OnnxModel model(words[1]);
  Generator random(1);
  const Tensor x(random.normal(shape, DType::f32, cpu()));
  const Inference inference;
  const std::string plain = latency(runs, [&] { model.run({&x, 1}); });
  CapturedForward forward(model, [&](std::span<const Tensor> inputs) { return model.run(inputs); }, {.check_every = 0});
  std::string replayed = "null";
  try {
    replayed = latency(runs, [&] { forward({x}); });
  } catch (const CaptureError& error) {
    std::cerr << error.what() << '\n';
  }
  std::cout << "{\"plain_us\": " << plain << ", \"replayed_us\": " << replayed << "}\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
