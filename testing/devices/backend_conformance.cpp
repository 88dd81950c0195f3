// SPDX-License-Identifier: Apache-2.0
#include <tutti/testing/conformance.h>

#include <tutti/backend/error.h>
#include <tutti/testing/device_comparison.h>

namespace tutti::testing {

Conformance check_backend(Device tested, Device reference) {
  if (tested == reference) throw Error("[check_backend] a device is compared with itself");
  Conformance found;
  found.left_out = {
      "graphs (make_graph, draws_at_places), and work of several streams: the suite has no part for them"};
  for (const auto compare : {compare_elementwise, compare_gradient_formulas, compare_movement, compare_reductions,
                             compare_structured, compare_sequences, compare_linear_algebra, compare_optimizers,
                             compare_autodiff, compare_training_sizes, compare_many_rows}) {
    DeviceComparison both(reference, tested);
    compare(both);
    found.checks += both.comparisons();
    found.faults.insert(found.faults.end(), both.differences().begin(), both.differences().end());
    // Both refuse what has no result; what else both refuse was not compared.
    for (const std::string& refused : both.refused())
      if (refused.find("nothing to choose from") == std::string::npos)
        found.faults.push_back("not compared, since both refuse it: " + refused);
  }
  return found;
}

}  // namespace tutti::testing
