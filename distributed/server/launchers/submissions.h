// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/layout/gradient_arena.h>
#include <tutti/distributed/ledger/sync_ledger.h>
#include <tutti/distributed/messages/sync_messages.h>

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti {

/// The gradients that devices have handed in and no reduction has taken yet: their arenas, the events after which
/// gradients may be read, and gradients that lie in no arena. Its places are kept from one generation to the next:
/// those of a gradient are written before a reduction reads them. Touched while messages are processed.
class Submissions {
 public:
  explicit Submissions(std::size_t members) : arenas_(members) {}

  /// `keeps_gradients`: dense gradients are reduced from where they are, not from arenas.
  void make_room(std::size_t parameters, bool keeps_gradients);
  void begin_generation() { rows_.clear(); }
  void set_arena(MemberIndex member, std::shared_ptr<const GradientArena> arena, Event free) {
    arenas_[member] = {std::move(arena), std::move(free)};
  }
  /// Keeps what reduces the gradient of a known parameter that has been checked.
  void add(SubmitGradient& message, const SyncParameter& parameter) {  // inline: called for every gradient
    const std::size_t place = cell(message.parameter, message.stamp.member);
    ready_[place] = std::move(message.ready);
    if (message.elsewhere) add_elsewhere(place, *message.elsewhere, parameter);
  }

  const GradientArena* arena(MemberIndex member) const { return arenas_[member].arena.get(); }
  const Event& arena_free(MemberIndex member) const { return arenas_[member].free; }
  Event take_ready(ParameterId id, MemberIndex member) { return std::move(ready_[cell(id, member)]); }
  Array take_gradient(ParameterId id, MemberIndex member) { return std::exchange(gradients_[cell(id, member)], {}); }
  std::vector<SparseGradient> take_rows(ParameterId, MemberIndex);

  /// Lets go of gradients that nothing will take.
  void drop_gradients();
  /// Lets go of everything: the group has failed.
  void drop();

 private:
  struct Registered {
    std::shared_ptr<const GradientArena> arena;
    Event free;  // earlier than this nobody may write to the arena
  };
  void add_elsewhere(std::size_t place, GradientRef&, const SyncParameter&);
  std::size_t cell(ParameterId id, MemberIndex member) const noexcept { return id.value * arenas_.size() + member; }

  std::vector<Registered> arenas_;                                     // arenas of the current generation, by member
  std::vector<Event> ready_;                                           // indexed by `cell`
  std::unordered_map<std::size_t, std::vector<SparseGradient>> rows_;  // keys: `cell`
  std::vector<Array> gradients_;                                       // indexed by `cell`; empty unless they are kept
};

}  // namespace tutti
