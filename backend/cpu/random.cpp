// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/pack_loops.h>
#include <tutti/backend/random.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace tutti {
namespace {

// The mapping from elements to counters is documented in backend/random.h.

constexpr std::uint64_t join(std::uint32_t low, std::uint32_t high) {
  return low | (static_cast<std::uint64_t>(high) << 32U);
}
/// [0, 1) from the top 53 bits.
constexpr double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1p-53; }

/// What one counter gives: 4 elements of f32 or 2 of f64.
template <class T> constexpr std::size_t kPerBlock = 16 / sizeof(T);
template <class T> using Drawn = std::array<T, kPerBlock<T>>;

/// [a, b): rounding may reach b, which is then replaced by the element below.
template <class T> Drawn<T> uniform_block(const RandomCall& call, const Philox& bits) {
  Drawn<T> drawn;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    double u = 0;
    if constexpr (std::is_same_v<T, float>)
      u = static_cast<double>(bits.word[i] >> 8U) * 0x1p-24;
    else
      u = unit(join(bits.word[2 * i], bits.word[2 * i + 1]));
    const auto value = static_cast<T>(call.a + (call.b - call.a) * u);
    const auto end = static_cast<T>(call.b);
    drawn[i] = value < end || value == static_cast<T>(call.a) ? value : std::nextafter(end, static_cast<T>(call.a));
  }
  return drawn;
}

/// Box and Muller's transform: two normal numbers from two uniform ones, of which the first is not 0.
std::array<double, 2> normal_pair(double first, double second) {
  const double radius = std::sqrt(-2.0 * std::log(first));
  const double angle = 2.0 * std::numbers::pi * second;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

template <class T> Drawn<T> normal_block(const RandomCall& call, const Philox& bits) {
  Drawn<T> drawn;
  for (std::size_t i = 0; i < drawn.size(); i += 2) {
    std::array<double, 2> pair{};
    if constexpr (std::is_same_v<T, float>)
      pair = normal_pair((bits.word[i] + 1.0) * 0x1p-32, bits.word[i + 1] * 0x1p-32);
    else
      pair = normal_pair(unit(join(bits.word[0], bits.word[1])) + 0x1p-53, unit(join(bits.word[2], bits.word[3])));
    for (std::size_t j = 0; j < 2; ++j) drawn[i + j] = static_cast<T>(call.a + call.b * pair[j]);
  }
  return drawn;
}

template <class T> void draw(const RandomCall& call, std::int64_t begin, std::int64_t end, T* to) {
  const std::uint64_t first = call.offset + static_cast<std::uint64_t>(begin);
  const std::uint64_t last = call.offset + static_cast<std::uint64_t>(end);
  for (std::uint64_t element = first; element < last;) {
    const std::uint64_t within = element % kPerBlock<T>;
    const Philox bits = philox(call.seed, call.stream, element / kPerBlock<T>);
    const Drawn<T> drawn =
        call.kind == RandomCall::Kind::uniform ? uniform_block<T>(call, bits) : normal_block<T>(call, bits);
    const std::uint64_t count = std::min<std::uint64_t>(kPerBlock<T> - within, last - element);
    to = std::copy_n(drawn.begin() + static_cast<std::ptrdiff_t>(within), count, to);
    element += count;
  }
}

}  // namespace

void CpuBackend::random(const RandomCall& call, const Array& output) {
  stream(output.device())
      .launch(
          "random",
          [call, &pool = threads(output.device())](const Array& to) {
            constexpr std::int64_t kGrain = 4096;
            visit_floating(to.dtype(), [&]<class T>(std::type_identity<T>) {
              pool.parallel_for(to.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
                draw(call, begin, end, to.data<T>() + begin);
              });
            });
          },
          output);
}

}  // namespace tutti
