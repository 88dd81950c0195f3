// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/elementwise/lanes.h>

#include <tutti/backend/cpu/packs/pack_functions.h>

namespace tutti::lane_functions {

#define TUTTI_LANES_FUNCTION(name)                                                 \
  void name(const float* from, float* to) {                                        \
    for (std::int64_t i = 0; i < Lanes<float>::kCount; i += Pack<float>::kLanes)   \
      tutti::name(Pack<float>::load(from + i)).store(to + i);                      \
  }                                                                                \
  void name(const double* from, double* to) {                                      \
    for (std::int64_t i = 0; i < Lanes<double>::kCount; i += Pack<double>::kLanes) \
      tutti::name(Pack<double>::load(from + i)).store(to + i);                     \
  }
TUTTI_LANES_FUNCTIONS(TUTTI_LANES_FUNCTION)
#undef TUTTI_LANES_FUNCTION

}  // namespace tutti::lane_functions
