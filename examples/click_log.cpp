// SPDX-License-Identifier: Apache-2.0
#include <tutti/examples/click_log.h>

#include <tutti/backend/random.h>

#include <algorithm>
#include <cmath>

namespace clicks {

using namespace tutti;

namespace {

constexpr std::int64_t kUsers = 400;
constexpr std::int64_t kItems = 120;
constexpr std::int64_t kFirstItems = 60;  // there from the beginning
constexpr std::int64_t kItemsAnHour = 5;  // more, until all are there
constexpr std::int64_t kSlots = 5;
constexpr std::int64_t kCountries = 8;
constexpr std::int64_t kCategories = 10;

std::vector<double> normals(Generator& random, std::int64_t count, double deviation) {
  auto values = random.normal({count}, DType::f64, cpu()).to_vector<double>();
  for (double& value : values) value *= deviation;
  return values;
}

double at(const std::vector<double>& values, std::int64_t position) {
  return values[static_cast<std::size_t>(position)];
}

std::int64_t drawn_below(Generator& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
}

/// An id that says nothing. Steele et al., "Fast Splittable Pseudorandom Number Generators" (2014): its mix64variant13.
std::int64_t hashed(Column column, std::int64_t number) {
  std::uint64_t z = static_cast<std::uint64_t>(column * 1'000'003 + number) + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return static_cast<std::int64_t>(z ^ (z >> 31U));
}

}  // namespace

ClickLog::ClickLog(std::uint64_t seed) : seed_(seed) {
  Generator random(seed);
  tastes_ = normals(random, kUsers * 2, 0.8);
  styles_ = normals(random, kItems * 2, 0.8);
  qualities_ = normals(random, kItems, 0.7);
  affinities_ = normals(random, kCountries * kCategories, 0.7);
}

double ClickLog::logit(std::int64_t user, std::int64_t item, std::int64_t slot) const {
  const double meets =
      at(tastes_, 2 * user) * at(styles_, 2 * item) + at(tastes_, 2 * user + 1) * at(styles_, 2 * item + 1);
  const double affinity = at(affinities_, user % kCountries * kCategories + item % kCategories);
  return -0.5 + at(qualities_, item) + meets + affinity - 0.3 * static_cast<double>(slot);
}

Hour ClickLog::hour(std::int64_t number, std::int64_t count) const {
  Generator random = Generator(seed_).split(1 + static_cast<std::uint64_t>(number));
  const std::int64_t items = std::min(kItems, kFirstItems + kItemsAnHour * number);
  const auto chances = random.uniform({count}, DType::f64, cpu()).to_vector<double>();
  Hour hour;
  std::vector<std::int64_t> ids;
  std::vector<float> clicked;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t user = drawn_below(random, kUsers);
    const std::int64_t item = drawn_below(random, items);
    const std::int64_t slot = drawn_below(random, kSlots);
    const std::int64_t pair = user % kCountries * kCategories + item % kCategories;
    ids.insert(ids.end(), {hashed(Column::user, user), hashed(Column::item, item), hashed(Column::slot, slot),
                           hashed(Column::country_and_category, pair)});
    hour.probabilities.push_back(1 / (1 + std::exp(-logit(user, item, slot))));
    clicked.push_back(at(chances, i) < hour.probabilities.back() ? 1.0F : 0.0F);
  }
  hour.examples = {Array::from(ids, {count, kColumns}, cpu()), Array::from(clicked, {count, 1}, cpu())};
  return hour;
}

}  // namespace clicks
