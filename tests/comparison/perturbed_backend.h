// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/forwarding_backend.h>

#include <set>
#include <string>

namespace tutti::testing {

/// The backend inside a PerturbedBackend, made before it.
struct PerturbedCpu {
  CpuBackend cpu;
};

/// The CPU's kernels, of which one gives a wrong last element: what a comparison of devices must find. Notes the names
/// of the kernels that ran. One thread at a time.
class PerturbedBackend final : private PerturbedCpu, public ForwardingBackend<PerturbedBackend> {
 public:
  std::string perturbed;  ///< the kernel's name; "": none
  std::set<std::string> ran;
  bool fuses = true;  ///< false: fused kernels are left to the others

  PerturbedBackend();
  ~PerturbedBackend() override;

  /// Every kernel there is, as `ran` names them: those of the list, each of its kinds by itself.
  static std::set<std::string> all_kernels();

  bool has_fused(FusedKernel kernel) const override { return fuses && inner().has_fused(kernel); }
  template <class Kernel, class... Arguments> void call(Kernel, const Arguments&...);
};

}  // namespace tutti::testing
