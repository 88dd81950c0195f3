// SPDX-License-Identifier: Apache-2.0
// Compiled once for train/, which reads and writes JSON. Sources include what they use all the same.
#include <tutti/autodiff/pch/tensors.h>

#include <nlohmann/json.hpp>

#include <tutti/nn/module.h>
