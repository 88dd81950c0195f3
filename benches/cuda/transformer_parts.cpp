// SPDX-License-Identifier: Apache-2.0
// Forward and backward of what a transformer is made of, in the shapes of GPT-2 124M with 8 sequences of 1024 tokens.
// benches/peers/torch_eager.py has the same in PyTorch.
#include <tutti/benches/cuda/measurement.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/attention.h>
#include <tutti/nn/losses/classification_loss.h>
#include <tutti/optim/adamw.h>

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <utility>

namespace tutti::bench {
namespace {

class TransformerTable {
 public:
  TransformerTable(const BenchOptions& options, BenchResults& results)
      : options_(options), results_(results), shrink_(std::max<std::int64_t>(1, 8192 / options.size)) {}

  void attention() {
    for (const auto& [length, features] : {std::pair{1024, 64}, {1024, 128}, {4096, 64}, {4096, 128}}) {
      const std::int64_t t = less(length);
      const std::int64_t heads = 12 * (4096 / length);  // with all lengths as many tokens
      const Shape shape{2, heads, t, features};
      // Two products forward and five backward, of which the causal half counts.
      const double work = 0.5 * 7 * 2.0 * static_cast<double>(2 * heads * t * t * features);
      both(fmt::format("causal attention, T {}, d {}", length, features), "attention", work, {shape, shape, shape},
           [](const std::vector<Tensor>& in) {
             return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
           });
    }
  }

  void parts() {
    const std::int64_t tokens = less(8192);
    const std::int64_t width = less(768);
    const std::int64_t vocabulary = less(50'257);
    const auto size = static_cast<double>(tokens * width);
    product("product of the attention's inputs", tokens, width, 3 * width);
    product("product into the wide layer", tokens, width, 4 * width);
    product("product out of the wide layer", tokens, 4 * width, width);
    product("product with the vocabulary", tokens, width, vocabulary);
    const Tensor targets = numbers_below(vocabulary, {tokens});
    both("cross entropy of 50257 classes", "parts", 4.0 * static_cast<double>(tokens * vocabulary),
         {{tokens, vocabulary}}, [&](const auto& in) { return cross_entropy(in[0], targets); });
    both("layer norm of 768", "parts", 5 * size, {{tokens, width}, {width}, {width}},
         [&](const auto& in) { return layer_norm(in[0], {width}, in[1], in[2]); });
    both("softmax of rows of 768", "parts", 5 * size, {{tokens, width}},
         [](const auto& in) { return softmax(in[0], -1); });
    both("gelu", "parts", 5 * size, {{tokens, 4 * width}}, [](const auto& in) { return gelu_tanh(in[0]); });
    Generator random(5);
    both("dropout", "parts", 5 * size, {{tokens, width}}, [&](const auto& in) { return dropout(in[0], 0.1, random); });
    const Tensor indices = numbers_below(vocabulary, {tokens});
    both("embedding of 50257 x 768", "parts", 2 * size, {{vocabulary, width}},
         [&](const auto& in) { return embedding(in[0], indices); });
    adamw();
  }

 private:
  std::int64_t less(std::int64_t length) const { return std::max<std::int64_t>(8, length / shrink_); }

  Tensor numbers_below(std::int64_t below, const Shape& shape) {
    return Tensor(Generator(7).uniform(shape, DType::f32, options_.device, 0, static_cast<double>(below)))
        .cast(DType::i64);
  }

  /// In f32 and in bf16; `work`: operations, or elements that are read or written.
  void both(const std::string& name, const char* table, double work, const std::vector<Shape>& shapes,
            const std::function<Tensor(const std::vector<Tensor>&)>& f) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      std::vector<Tensor> inputs;
      Generator random(1);
      for (const Shape& shape : shapes)
        inputs.emplace_back(random.normal(shape, DType::f32, options_.device).cast(dtype), true);
      Tensor gradient;
      const bool elements = std::string_view(table) == "parts" && !name.starts_with("product");
      results_.add({.table = table,
                    .name = fmt::format("{}, {}", name, to_string(dtype)),
                    .seconds = seconds_of(options_.device, options_.seconds,
                                          [&] {
                                            for (Tensor& input : inputs) input.zero_grad();
                                            const Tensor y = f(inputs);
                                            if (!gradient.defined()) gradient = Tensor(ones_like(y.array()));
                                            backward(y, {.gradient = gradient});
                                          }),
                    .work = work * (elements ? static_cast<double>(size_of(dtype)) : 1.0)});
    }
  }

  static Array ones_like(const Array& y) { return Array::full(y.shape(), 1, y.dtype(), y.device()); }

  void product(const std::string& name, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
    both(name, "parts", 3 * 2.0 * static_cast<double>(rows * inner * columns), {{rows, inner}, {inner, columns}},
         [](const auto& in) { return matmul(in[0], in[1]); });
  }

  // Of as many tensors as the model has, each of 12 layers' twelve and the tables.
  void adamw() {
    const std::int64_t width = less(768);
    std::vector<Tensor> parameters;
    double count = 0;
    const auto add = [&](const Shape& shape) {
      Tensor parameter(Array::zeros(shape, DType::f32, options_.device), true);
      backward(sum(parameter * 2.0));
      count += static_cast<double>(parameter.size());
      parameters.push_back(std::move(parameter));
    };
    add({less(50'257), width});
    add({less(1024), width});
    for (int layer = 0; layer < 12; ++layer) {
      for (const std::int64_t columns : {3, 1, 4, 4}) add({width, columns * width});
      for (const std::int64_t length : {1, 1, 1, 1, 3, 1, 4, 1}) add({length * width});
    }
    AdamW optimizer(parameters, 1e-6);
    results_.add({.table = "parts",
                  .name = "AdamW of 124 M parameters, f32",
                  .seconds = seconds_of(options_.device, options_.seconds, [&] { optimizer.step(); }),
                  .work = 7 * 4 * count});
  }

  const BenchOptions& options_;
  BenchResults& results_;
  std::int64_t shrink_;  // of a rehearsal, whose shapes are smaller
};

}  // namespace

void bench_attention(const BenchOptions& options, BenchResults& results) {
  TransformerTable(options, results).attention();
}

void bench_transformer_parts(const BenchOptions& options, BenchResults& results) {
  TransformerTable(options, results).parts();
}

}  // namespace tutti::bench
