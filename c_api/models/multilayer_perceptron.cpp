// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api/models/multilayer_perceptron.h>

#include <tutti/backend/raise.h>
#include <tutti/c_api/calls/guard.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/sequential.h>

#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tutti {
namespace {

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
  }
  return parts;
}

std::int64_t length_of(std::string_view text) {
  std::int64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc{} || end != text.data() + text.size() || length < 1)
    c_api::refuse(fmt::format("[mlp] \"{}\" is no length of a layer; write lengths as \"784,128,10\"", text));
  return length;
}

void append_activation(Sequential& model, std::string_view name) {
  if (name == "relu") return model.append(ReLU());
  if (name == "gelu") return model.append(GELU());
  if (name == "silu") return model.append(SiLU());
  if (name == "tanh") return model.append(Tanh());
  if (name == "sigmoid") return model.append(Sigmoid());
  c_api::refuse(fmt::format("[mlp] no activation function \"{}\"; there are relu, gelu, silu, tanh, sigmoid", name));
}

}  // namespace

AnyModel make_multilayer_perceptron(const std::string& options, Generator& random) {
  const std::vector<std::string_view> parts = parts_of(options, ';');
  std::string_view activation = "relu";
  constexpr std::string_view kActivation = "activation=";
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (!parts[i].starts_with(kActivation))
      c_api::refuse(fmt::format("[mlp] no option \"{}\"; there is \"activation=relu\"", parts[i]));
    activation = parts[i].substr(kActivation.size());
  }
  const std::vector<std::string_view> lengths = parts_of(parts.front(), ',');
  if (lengths.size() < 2)
    c_api::refuse(fmt::format("[mlp] \"{}\": an input and an output at least; write \"784,128,10\"", options));
  Sequential model;
  for (std::size_t layer = 0; layer + 1 < lengths.size(); ++layer) {
    if (layer > 0) append_activation(model, activation);
    model.append(Linear(length_of(lengths[layer]), length_of(lengths[layer + 1]), random));
  }
  return model;
}

}  // namespace tutti
