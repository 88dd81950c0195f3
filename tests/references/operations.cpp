// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>

namespace tutti::testing {

std::vector<std::string> reference_files() {
  return {"elementwise", "functions", "shapes",  "reductions",     "ordering", "products", "images",
          "volumes",     "sampling",  "fourier", "linear_algebra", "layers",   "losses",   "networks"};
}

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (const auto& part :
       {elementwise_operations(), function_operations(), shape_operations(), structured_operations(),
        ordering_operations(), image_operations(), volume_operations(), sampling_operations(), fourier_operations(),
        linear_algebra_operations(), layer_operations(), loss_operations(), network_operations()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

bool begins_with_name(const std::string& text, const Operation& operation, const std::string& before,
                      const std::string& behind) {
  std::istringstream declared(operation.declared + " " + operation.name);
  for (std::string name; declared >> name;) {
    const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
    const std::string start = before + name + behind;
    if (text.size() >= start.size() && std::equal(start.begin(), start.end(), text.begin(), same)) return true;
  }
  return false;
}

bool names_inner_operation(const std::string& error) {
  static const std::regex kNames("\\[[^\\]]*\\] (\\[[a-z][a-z_0-9]*\\] |[a-z_0-9]+: )[^]*");
  return std::regex_match(error, kNames);
}

}  // namespace tutti::testing
