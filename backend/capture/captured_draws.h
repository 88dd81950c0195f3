// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/calls/kernel_arguments.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

class Backend;
class Generator;

/// The random numbers that a captured step draws, told by where its generators stood when it began: each replay
/// therefore draws the numbers that the step itself would draw then, and moves the generators on as it would.
class CapturedDraws {
 public:
  /// The source of a draw: a generator that lives on, one that ended with the step (whose numbers are the same each
  /// time), or one made of another by `fork` or `split`.
  struct Origin {
    enum class Kind : std::uint8_t { generator, fork, split } kind = Kind::generator;
    std::size_t generator = 0;             ///< place among the watched generators
    std::shared_ptr<const Origin> parent;  ///< origin of the generator that was forked or split
    std::uint64_t number = 0;              ///< fork: draws before it; split: its index
  };
  struct Draw {
    std::shared_ptr<const Origin> origin;
    std::uint64_t before = 0;  ///< elements drawn from it before, in this step
  };

  // --- while the step is captured
  void note_draw(Generator&, std::uint64_t stood_at, std::uint64_t first);
  void note_fork(Generator& parent, std::uint64_t stood_at, std::uint64_t first, const Generator& child);
  void note_split(const Generator& parent, std::uint64_t index, const Generator& child);
  const Draw& last_draw() const noexcept { return last_; }
  std::uint64_t last_first() const noexcept { return last_first_; }  ///< its counter, as it was drawn
  /// Gives the draw a place in device memory, for `placed`.
  std::size_t add_place(const Draw&);
  void end();  ///< generators that are gone by now were the step's own

  // --- for replays
  bool stale() const;  ///< a generator is gone: whether another took its place is not known
  /// Takes where the generators stand, and moves them on by what the step draws. Where the backend draws at places,
  /// writes them to the device's memory.
  void begin(Backend&, Device);
  RandomCall placed(RandomCall, std::size_t place) const;  ///< the call as it is to be in this replay
  /// True if draws of this step and another's are the same, seen from their beginnings.
  bool same(const Draw&, const CapturedDraws& other, const Draw& others) const;

 private:
  struct Watched {
    Generator* generator = nullptr;  // null: it was the step's own
    std::weak_ptr<const void> sign;
    std::uint64_t seed = 0;
    std::uint64_t stream = 0;
    std::uint64_t base = 0;   // its counter as the step began
    std::uint64_t drawn = 0;  // elements that the step draws from it
  };
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // seed and stream

  Draw locate(Generator&, std::uint64_t stood_at, std::uint64_t first);
  Generator made(const Origin&) const;
  bool same(const Origin&, const CapturedDraws& other, const Origin& others) const;

  std::vector<Watched> watched_;
  std::map<Key, std::shared_ptr<const Origin>> made_;  // origins of generators forked or split from watched ones
  Draw last_;
  std::uint64_t last_first_ = 0;
  std::vector<Draw> draws_;        // draws that have a place
  std::vector<DrawPlace> places_;  // place of each draw in this replay
  Array device_places_;            // i64 [draws, 3]: `places_` on the device; stays where it is, as graphs do
};

}  // namespace tutti
