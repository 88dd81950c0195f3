// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tutti {

class Optimizer;

/// An optimizer's learning rates, of one group after the other, to nine digits: two hosts' functions of mathematics may
/// differ in a rate's last bits. Equal texts are equal rates.
std::string text_of_rates(const Optimizer&);

}  // namespace tutti
