// SPDX-License-Identifier: Apache-2.0
// Says as JSON what one core of this machine can do at most: tools show benches' figures beside these.
#include <tutti/backend/processor_limits.h>

#include <tutti/version.h>

#include <fmt/format.h>

int main() {
  const tutti::ProcessorLimits limits = tutti::measure_processor_limits();
  fmt::print("{{\"FLOP/s\": {}, \"copies\": {{", limits.flops);
  for (const tutti::CopyLimit& copy : limits.copies)
    fmt::print("{}\"{}\": {}", &copy == limits.copies.data() ? "" : ", ", copy.bytes, copy.bytes_per_second);
  fmt::print("}}, \"tutti\": \"{}\"}}\n", TUTTI_VERSION);
}
