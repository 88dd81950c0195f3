// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/c_api/model_registry.h>

#include <string>

namespace tutti {

/// Linear layers, with an activation function between them, of "784,128,10;activation=relu": the lengths of inputs,
/// hidden layers and outputs. Members are named as those of the same torch.nn.Sequential. Throws Error for other texts.
AnyModel make_multilayer_perceptron(const std::string& options, Generator& random);

}  // namespace tutti
