// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/messages/buffer_sync.h>
#include <tutti/distributed/messages/sync_waiter.h>
#include <tutti/distributed/server/answers/pending_answers.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tutti {

/// The state of a group's open generation; the next generation begins with another round. Touched while messages are
/// processed.
struct SyncRound {
  using Clock = std::chrono::steady_clock;

  explicit SyncRound(std::size_t members) : ended(members), buffers(members) {}
  SyncRound(std::size_t members, std::int64_t generation, std::shared_ptr<const GradientLayout> layout)
      : SyncRound(members) {
    result->generation = generation;
    result->layout = std::move(layout);
  }

  /// Somebody waits for what is missing, from now on if nobody did before.
  void begin_wait(Clock::time_point now) {
    if (!waiting_since) waiting_since = now;
  }

  std::shared_ptr<RoundResult> result = std::make_shared<RoundResult>();
  PendingAnswers ended;                        ///< devices whose backward has ended, which wait for the release
  std::vector<BufferShare> buffers;            ///< their buffers, by member of this process
  std::shared_ptr<const Agreement> agreement;  ///< requirements of all processes' devices; null: there is one process
  std::optional<Clock::time_point> waiting_since;
  bool warned = false;  ///< a warning about what is missing was given
};

}  // namespace tutti
