// SPDX-License-Identifier: Apache-2.0
// The same for what reads and writes JSON.
#include <tutti/autodiff/pch/tensors.h>

#include <nlohmann/json.hpp>

#include <tutti/nn/module.h>
