// SPDX-License-Identifier: Apache-2.0
#include <tutti/testing/device_comparison.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/operations.h>

namespace tutti::testing {
namespace {

/// Sequences of 4, 4, 3 and 1 steps, and their gradients.
void compare_recurrent(DeviceComparison& both, std::int64_t hidden, DType dtype) {
  for (const RecurrentGates gates :
       {RecurrentGates::tanh, RecurrentGates::relu, RecurrentGates::lstm, RecurrentGates::gru})
    for (const bool reversed : {false, true}) {
      const bool has_cell = gates == RecurrentGates::lstm;
      const std::int64_t blocks = has_cell ? 4 : gates == RecurrentGates::gru ? 3 : 1;
      const RecurrentSteps steps{gates, {4, 3, 3, 2}, reversed};
      const Arrays inputs{numbers({12, blocks * hidden}, dtype, Numbers::plain, 41),
                          numbers({4, hidden}, dtype, Numbers::plain, 42),
                          numbers({4, hidden}, dtype, Numbers::plain, 43),
                          numbers({blocks * hidden, hidden}, dtype, Numbers::plain, 44),
                          numbers({blocks * hidden}, dtype, Numbers::plain, 45),
                          numbers({has_cell ? 20 : 16, hidden}, dtype, Numbers::plain, 46)};
      both.compare_layouts(
          "recurrent_steps", inputs,
          [&](const Arrays& in) {
            const RecurrentOperands operands{in[0], in[1], has_cell ? in[2] : Array(), in[3],
                                             reversed ? Array() : in[4]};
            const RecurrentRun run = recurrent_steps(steps, operands, true);
            const RecurrentOperands gradients = recurrent_steps_gradient(steps, operands, run, in[5]);
            Arrays results{run.output,      run.kept, run.hidden_before, gradients.input_part, gradients.hidden_weight,
                           gradients.hidden};
            if (has_cell) results.insert(results.end(), {run.cell_before, gradients.cell});
            if (!reversed) results.push_back(gradients.hidden_bias);
            return results;
          },
          Match::largest);
    }
}

void compare_attention(DeviceComparison& both, std::int64_t queries, DType dtype) {
  for (const bool causal : {false, true}) {
    if (causal && queries == 1) continue;  // one key is seen, so that gradients are nothing but errors of rounding
    const AttentionScores scores{0.4, causal, 16};
    const Arrays inputs{numbers({2, queries, 5}, dtype, Numbers::plain, 51),
                        numbers({2, 19, 5}, dtype, Numbers::plain, 52), numbers({2, 19, 7}, dtype, Numbers::plain, 53),
                        numbers({queries, 19}, dtype, Numbers::plain, 54),
                        numbers({2, queries, 7}, dtype, Numbers::plain, 55)};
    both.compare_layouts(
        "attention", inputs,
        [&](const Arrays& in) {
          const AttentionOperands operands{in[0], in[1], in[2], causal ? Array() : in[3]};
          const AttentionRun run = attention(scores, operands);
          const AttentionOperands gradients = attention_gradient(scores, operands, run, in[4]);
          return Arrays{run.output, run.log_sum, gradients.query, gradients.key, gradients.value};
        },
        Match::largest);
  }
}

/// Batch norms, and their gradients, by tensors: a kind of device need not have the kernel.
void compare_channels(DeviceComparison& both, const Shape& shape, DType dtype) {
  const DType computed = computed_in(dtype);
  const Arrays inputs{numbers(shape, dtype, Numbers::plain, 61), numbers({shape[1]}, computed, Numbers::plain, 62),
                      numbers({shape[1]}, computed, Numbers::plain, 63), numbers(shape, dtype, Numbers::plain, 64)};
  both.compare_layouts(
      "normalize_channels", inputs,
      [](const Arrays& in) {
        const Tensor x(in[0], true);
        const Tensor weight(in[1], true);
        const Tensor bias(in[2], true);
        const Tensor y = batch_norm(x, {}, {}, weight, bias, {.training = true});
        const Tensor leaves[] = {x, weight, bias};
        const std::vector<Tensor> gradients = grad(y, leaves, {.gradients = {Tensor(in[3])}});
        return Arrays{y.array(), gradients[0].array(), gradients[1].array(), gradients[2].array()};
      },
      Match::largest);
}

}  // namespace

void compare_sequences(DeviceComparison& both) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t hidden : {1, 5, 33}) compare_recurrent(both, hidden, dtype);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const std::int64_t queries : {1, 4, 21}) compare_attention(both, queries, dtype);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const Shape& shape : {Shape{2, 3, 16}, Shape{3, 5, 7, 9}, Shape{1, 2, 1030}})
      compare_channels(both, shape, dtype);
}

}  // namespace tutti::testing
