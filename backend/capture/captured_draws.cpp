// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/capture/captured_draws.h>

#include <tutti/backend/backend.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/random.h>

#include <algorithm>

namespace tutti {

// What was made by fork or split began at 0, and is told by its seed: of 128 random bits.
CapturedDraws::Draw CapturedDraws::locate(Generator& generator, std::uint64_t stood_at, std::uint64_t first) {
  if (const auto found = made_.find({generator.seed_, generator.stream_}); found != made_.end())
    return {found->second, first};
  const auto known = std::ranges::find_if(
      watched_, [&](const Watched& each) { return each.generator == &generator && !each.sign.expired(); });
  const auto place = static_cast<std::size_t>(known - watched_.begin());
  if (known == watched_.end())
    watched_.push_back(
        {&generator, generator.life_.watch(), generator.seed_, generator.stream_, stood_at, /*drawn=*/0});
  auto origin = std::make_shared<Origin>();
  origin->generator = place;
  return {std::move(origin), first - watched_[place].base};
}

void CapturedDraws::note_draw(Generator& generator, std::uint64_t stood_at, std::uint64_t first) {
  last_ = locate(generator, stood_at, first);
  last_first_ = first;
}

void CapturedDraws::note_fork(Generator& parent, std::uint64_t stood_at, std::uint64_t first, const Generator& child) {
  const Draw draw = locate(parent, stood_at, first);
  made_[{child.seed_, child.stream_}] =
      std::make_shared<Origin>(Origin{Origin::Kind::fork, 0, draw.origin, draw.before});
}

// Of a generator that stays what it is, a split does too.
void CapturedDraws::note_split(const Generator& parent, std::uint64_t index, const Generator& child) {
  if (const auto found = made_.find({parent.seed_, parent.stream_}); found != made_.end())
    made_[{child.seed_, child.stream_}] =
        std::make_shared<Origin>(Origin{Origin::Kind::split, 0, found->second, index});
}

void CapturedDraws::end() {
  for (Watched& each : watched_)
    if (each.sign.expired())
      each.generator = nullptr;
    else
      each.drawn = each.generator->counter_ - each.base;
}

bool CapturedDraws::stale() const {
  return std::ranges::any_of(watched_,
                             [](const Watched& each) { return each.generator != nullptr && each.sign.expired(); });
}

std::size_t CapturedDraws::add_place(const Draw& draw) {
  draws_.push_back(draw);
  return draws_.size() - 1;
}

void CapturedDraws::begin(Backend& backend, Device device) {
  static_assert(sizeof(DrawPlace) == 3 * sizeof(std::int64_t));
  if (!draws_.empty() && !device_places_.defined() && backend.draws_at_places())
    device_places_ = Array::empty({static_cast<std::int64_t>(draws_.size()), 3}, DType::i64, device);
  for (Watched& each : watched_) {
    if (each.generator == nullptr) continue;
    each.seed = each.generator->seed_;
    each.stream = each.generator->stream_;
    each.base = each.generator->counter_;
    each.generator->counter_ += each.drawn;
  }
  places_.clear();
  for (const Draw& draw : draws_) {
    const Generator from = made(*draw.origin);
    places_.push_back({from.seed_, from.stream_, from.counter_ + draw.before});
  }
  if (device_places_.defined()) backend.copy_from_host(places_.data(), device_places_);
}

Generator CapturedDraws::made(const Origin& origin) const {
  if (origin.kind == Origin::Kind::generator) {
    const Watched& from = watched_[origin.generator];
    Generator generator(from.seed, from.stream);
    generator.counter_ = from.base;
    return generator;
  }
  Generator parent = made(*origin.parent);
  if (origin.kind == Origin::Kind::split) return parent.split(origin.number);
  parent.counter_ += origin.number;
  return parent.fork();
}

RandomCall CapturedDraws::placed(RandomCall call, std::size_t place) const {
  if (places_.empty()) raise<CaptureError>("[capture] a replay of a step that draws has to be begun");
  call.seed = places_[place].seed;
  call.stream = places_[place].stream;
  if (device_places_.defined())
    call.place = reinterpret_cast<const DrawPlace*>(device_places_.raw_data()) + place;
  else
    call.offset += places_[place].offset;
  return call;
}

bool CapturedDraws::same(const Draw& draw, const CapturedDraws& other, const Draw& others) const {
  return draw.before == others.before && same(*draw.origin, other, *others.origin);
}

bool CapturedDraws::same(const Origin& origin, const CapturedDraws& other, const Origin& others) const {
  if (origin.kind != others.kind || origin.number != others.number) return false;
  if (origin.kind != Origin::Kind::generator) return same(*origin.parent, other, *others.parent);
  const Watched& mine = watched_[origin.generator];
  const Watched& its = other.watched_[others.generator];
  if (mine.generator != nullptr || its.generator != nullptr) return mine.generator == its.generator;
  return mine.seed == its.seed && mine.stream == its.stream && mine.base == its.base;
}

}  // namespace tutti
