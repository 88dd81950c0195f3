// SPDX-License-Identifier: Apache-2.0
// Training steps of GPT-2 124M, 1024 tokens a sequence, eager and captured: tokens a second.
// benches/peers/torch_eager.py has the same in PyTorch, eager and compiled.
#include <tutti/benches/cuda/measurement.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/benches/models.h>
#include <tutti/nn/losses/classification_loss.h>
#include <tutti/train/captured_step.h>

#include <fmt/format.h>

namespace tutti::bench {
namespace {

class Gpt2 {
 public:
  Gpt2(const BenchOptions& options, std::int64_t batch, DType dtype)
      : options_(options), small_(options.size < 1024), dtype_(dtype), random_(1), model_(made()) {
    model_.detach_members_to(options.device);
    optimizer_ = adamw(model_.parameters());
    tokens_ = drawn({batch, context()});
    targets_ = drawn({batch * context()});
  }

  std::int64_t tokens() const { return tokens_.size(); }
  double seconds(bool captured) {
    CapturedStep step(model_, [this](std::span<const Tensor> batch) { return std::vector{loss(batch[0], batch[1])}; });
    return seconds_of(options_.device, options_.seconds, [&] {
      optimizer_->zero_grad();
      if (captured)
        step({tokens_, targets_});
      else
        backward(loss(tokens_, targets_));
      optimizer_->step();
    });
  }

 private:
  std::int64_t context() const { return small_ ? 16 : text::kGpt2.context; }
  std::int64_t vocabulary() const { return small_ ? 96 : text::kGpt2.vocabulary; }
  Flat<text::Gpt> made() {
    if (!small_) return Flat<text::Gpt>(text::kGpt2, random_);
    return Flat<text::Gpt>({.vocabulary = vocabulary(), .context = context(), .tied = true, .deviation = 0.02},
                           random_);
  }
  Tensor drawn(const Shape& shape) {
    return Tensor(random_.uniform(shape, DType::f32, options_.device, 0, static_cast<double>(vocabulary())))
        .cast(DType::i64);
  }
  Tensor loss(const Tensor& tokens, const Tensor& targets) const {
    const Autocast narrow(dtype_);
    return cross_entropy(model_(tokens), targets);
  }

  const BenchOptions& options_;
  bool small_;  // of a rehearsal
  DType dtype_;
  Generator random_;
  Flat<text::Gpt> model_;
  std::unique_ptr<Optimizer> optimizer_;
  Tensor tokens_;
  Tensor targets_;
};

}  // namespace

void bench_gpt2(const BenchOptions& options, BenchResults& results) {
  for (const auto& [batch, dtype] : {std::pair{8, DType::bf16}, {8, DType::f32}, {32, DType::bf16}}) {
    Gpt2 gpt2(options, options.size < 1024 ? 2 : batch, dtype);
    for (const bool captured : {false, true})
      results.add({.table = "gpt2",
                   .name = fmt::format("gpt2_124m_b{}_{}{}", batch, to_string(dtype), captured ? "_captured" : ""),
                   .seconds = gpt2.seconds(captured),
                   .work = static_cast<double>(gpt2.tokens())});
  }
}

}  // namespace tutti::bench
