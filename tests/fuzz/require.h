// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace tutti::testing {

/// What must hold for every input; the fuzzer keeps one for which it does not.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace tutti::testing
