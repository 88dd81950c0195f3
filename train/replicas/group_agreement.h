// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives.h>
#include <tutti/train/replicas/step_agreement.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

class GradientSync;

/// Agreement of the devices of several processes, by one collective for each of their steps. A device that has data
/// does not wait for it: it hears what the others said before its next step. All devices stop before the first step, of
/// those at which they may, of which none has told the others yet that it has data: one later than where a single
/// process stops, if the request came within a step. Waits end by the group's deadlines.
class GroupAgreement final : public StepAgreement {
 public:
  explicit GroupAgreement(GradientSync& group);  ///< not owned

  std::optional<std::string> stops_before(std::size_t device, std::int64_t step, bool may_stop) override;
  bool any_data(std::size_t device, bool has_data) override;
  bool any_window(std::size_t device, bool has_window) override;
  void meet(std::size_t device, const char* doing) override;
  std::optional<std::string> evaluation_stopped(std::size_t device, bool stopped) override;
  std::optional<std::string> late_stop(std::size_t device) override;
  void reset() override;

 private:
  struct Told {                            // one device's part of the conversation; touched by its thread alone
    std::optional<PendingTensor> pending;  // answer of all, on its way
    bool any = false;                      // any device said yes in what was heard last
    bool stops = false;                    // a stop was requested
    std::int64_t step = 0;                 // the next one
  };
  bool say(std::size_t device, bool yes, std::string purpose);
  void hear(Told&);
  std::string reason(std::size_t device);

  GradientSync& group_;
  std::vector<Told> told_;
};

}  // namespace tutti
