// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

namespace tutti::testing {

std::vector<std::string> reference_files() {
  return {"elementwise", "shapes", "reductions", "products", "images", "layers"};
}

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (const auto& part :
       {elementwise_operations(), shape_operations(), structured_operations(), image_operations(), layer_operations()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace tutti::testing
