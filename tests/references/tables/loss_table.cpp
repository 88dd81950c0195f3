// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/recurrent.h>
#include <tutti/tests/test_devices.h>

namespace tutti::testing {
namespace {

LossReduction reduction(const Call& c) {
  const std::string& name = c.attributes.text("reduction");
  if (name == "batch_mean") return LossReduction::batch_mean;
  return name == "mean" ? LossReduction::mean : name == "sum" ? LossReduction::sum : LossReduction::none;
}

/// The input whose place an attribute gives, or undefined.
Tensor named(const Call& c, std::string_view attribute) {
  return c.attributes.has(attribute) ? c.input(static_cast<std::size_t>(c.attributes.integer(attribute))) : Tensor();
}

std::optional<std::int64_t> ignored(const Call& c) {
  return c.attributes.has("ignore_index") ? std::optional(c.attributes.integer("ignore_index")) : std::nullopt;
}

CrossEntropyOptions cross_entropy_options(const Call& c) {
  return {.reduction = reduction(c),
          .weight = named(c, "weight"),
          .ignore_index = ignored(c),
          .class_axis = c.attributes.integer("class_axis", 1),
          .label_smoothing = c.attributes.number("label_smoothing", 0)};
}

NllOptions nll_options(const Call& c) {
  return {.reduction = reduction(c), .weight = named(c, "weight"), .ignore_index = ignored(c)};
}

BinaryLogitsOptions logits_options(const Call& c) {
  return {.reduction = reduction(c), .weight = named(c, "weight"), .pos_weight = named(c, "pos_weight")};
}

RNN::Nonlinearity nonlinearity(const Call& c) {
  return c.attributes.has("nonlinearity") && c.attributes.text("nonlinearity") == "relu" ? RNN::Nonlinearity::relu
                                                                                         : RNN::Nonlinearity::tanh;
}

/// All outputs of a network whose parameters are the inputs after the first.
template <class Network, class... More> std::vector<Tensor> recurrent(const Call& c, More... more) {
  Generator random(1);
  const auto& a = c.attributes;
  Network network(c.x[0].length(-1), a.integer("hidden"), random,
                  {.layers = a.integer("layers"),
                   .bidirectional = a.flag("bidirectional"),
                   .dtype = c.x[0].dtype(),
                   .device = test_device()},
                  more...);
  std::size_t next = 1;
  for (RecurrentWeights& weights : network.weights)
    for (Tensor* weight : {&weights.input_weight, &weights.hidden_weight, &weights.input_bias, &weights.hidden_bias})
      *weight = c.x.at(next++);
  const Axes listed = a.integers("lengths");
  const std::vector<std::int64_t> lengths(listed.begin(), listed.end());
  const RecurrentOutput output = lengths.empty() ? network.forward(c.x[0]) : network.forward(c.x[0], lengths);
  std::vector<Tensor> all{output.sequence, output.state.hidden};
  if (output.state.cell.defined()) all.push_back(output.state.cell);
  return all;
}

/// Behind a log_softmax.
Tensor ctc(const Call& c) {
  const auto lengths = [&](std::string_view name) {
    const Axes listed = c.attributes.integers(name);
    return std::vector<std::int64_t>(listed.begin(), listed.end());
  };
  return ctc_loss(c.x[0].defined() ? log_softmax(c.x[0], -1) : c.x[0], c.x[1],
                  {lengths("input_lengths"), lengths("target_lengths")},
                  {.reduction = reduction(c),
                   .blank = c.attributes.integer("blank", 0),
                   .zero_infinity = c.attributes.flag("zero_infinity")});
}

}  // namespace

std::vector<Operation> loss_operations() {
  return {
      TUTTI_REFERENCE(cross_entropy, cross_entropy(c.x[0], c.x[1], cross_entropy_options(c))),
      TUTTI_REFERENCE(nll_loss, nll_loss(c.x[0], c.x[1], nll_options(c))),
      TUTTI_REFERENCE(ctc_loss, ctc(c)),
      TUTTI_REFERENCE(kl_div, kl_div(c.x[0], c.x[1], {reduction(c), c.attributes.flag("log_target")})),
      TUTTI_REFERENCE(mse_loss, mse_loss(c.x[0], c.x[1], reduction(c))),
      TUTTI_REFERENCE(l1_loss, l1_loss(c.x[0], c.x[1], reduction(c))),
      TUTTI_REFERENCE(huber_loss, huber_loss(c.x[0], c.x[1], {reduction(c), c.attributes.number("delta")})),
      TUTTI_REFERENCE(smooth_l1_loss, smooth_l1_loss(c.x[0], c.x[1], {reduction(c), c.attributes.number("beta")})),
      TUTTI_REFERENCE(binary_cross_entropy, binary_cross_entropy(c.x[0], c.x[1], {reduction(c), named(c, "weight")})),
      TUTTI_REFERENCE(binary_cross_entropy_with_logits,
                      binary_cross_entropy_with_logits(c.x[0], c.x[1], logits_options(c))),
      TUTTI_REFERENCE(rnn, recurrent<RNN>(c, nonlinearity(c))),
      TUTTI_REFERENCE(lstm, recurrent<LSTM>(c)),
      TUTTI_REFERENCE(gru, recurrent<GRU>(c)),
  };
}

}  // namespace tutti::testing
