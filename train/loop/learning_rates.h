// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tutti {

class Optimizer;

/// An optimizer's learning rates, of one group after the other, so that equal texts are equal rates.
std::string text_of_rates(const Optimizer&);

}  // namespace tutti
