// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// The parameters that a replica showed when it was attached, to be compared with those that it shows later: one put in
/// another's place is trained by its device alone. Neither is looked at that never required a gradient, nor a replica
/// that was destroyed or given on as a copy. For the thread that drives the device.
class ShownMembers {
 public:
  ShownMembers() = default;  ///< belongs to no replica
  explicit ShownMembers(Module& replica);

  /// Says what became of the first that differs: `parameter "fc.weight" is another tensor`. Empty: none does.
  std::string difference() const;

 private:
  struct Parameter {
    std::string name;
    const void* identity;
    bool trained;
  };

  std::shared_ptr<Module* const> place_;
  std::vector<Parameter> shown_;
};

}  // namespace tutti
