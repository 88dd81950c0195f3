// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

namespace tutti::testing {

std::vector<std::string> reference_files() {
  return {"elementwise", "functions", "shapes",  "reductions",     "ordering", "products", "images",
          "volumes",     "sampling",  "fourier", "linear_algebra", "layers",   "losses"};
}

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (const auto& part : {elementwise_operations(), function_operations(), shape_operations(), structured_operations(),
                           ordering_operations(), image_operations(), volume_operations(), sampling_operations(),
                           fourier_operations(), linear_algebra_operations(), layer_operations(), loss_operations()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace tutti::testing
