// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti {

/// A second base of nodes whose `backward` runs also where every gradient of their output is null, which is then
/// undefined: something outside of the graph waits for what they do.
class RunsOnNull {
 protected:
  virtual ~RunsOnNull() = default;
};

}  // namespace tutti
