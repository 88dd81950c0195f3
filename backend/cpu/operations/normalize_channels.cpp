// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/row_sums.h>
#include <tutti/backend/cpu/runtime/divide_up.h>
#include <tutti/backend/memory/thread_cache.h>

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

using namespace row_sums;

/// Some planes of one channel of [n, channels, size], each of `size` elements.
template <class S> struct ChannelPart {
  S* data;
  std::int64_t planes;
  std::int64_t size;
  std::int64_t apart;

  S* plane(std::int64_t i) const { return data + i * apart; }
};

/// Mean and squared deviations of some elements, joined as in Chan et al., "Updating Formulae and a Pairwise Algorithm
/// for Computing Sample Variances" (1979).
struct ChannelMoments {
  double count = 0;
  double mean = 0;
  double squares = 0;

  void join(const ChannelMoments& other) {
    const double all = count + other.count;
    const double distance = other.mean - mean;
    squares += other.squares + distance * distance * count * other.count / all;
    mean += distance * other.count / all;
    count = all;
  }
  double variance() const { return squares < 0 ? 0 : squares / count; }  // biased; NaN stays
};

// Planes around means of their own: each is read from memory once.
template <class S> ChannelMoments moments_of(const ChannelPart<S>& x) {
  using T = ComputedIn<S>;
  const auto size = static_cast<double>(x.size);
  ChannelMoments moments;
  for (std::int64_t i = 0; i < x.planes; ++i) {
    const auto around = static_cast<T>(sum_in_double(x.plane(i), x.size) / size);
    const Distances found = distances_from(around, x.plane(i), x.size);
    moments.join({size, static_cast<double>(around) + found.sum / size, found.squares - found.sum * found.sum / size});
  }
  return moments;
}

template <class T> T scale_of(T variance, double epsilon) {
  return static_cast<T>(1.0 / std::sqrt(static_cast<double>(variance) + epsilon));
}

/// A number of a channel; `otherwise` where there is no array.
template <class T> T number_of_channel(const Array& array, std::int64_t channel, T otherwise) {
  return array.defined() ? array.data<T>()[channel] : otherwise;
}

template <class T> void set_number_of_channel(const Array& array, std::int64_t channel, double value) {
  if (array.defined()) array.data<T>()[channel] = static_cast<T>(value);
}

template <class S, class T = ComputedIn<S>>
void normalize(const ChannelPart<S>& from, T mean, T factor, T bias, const ChannelPart<S>& to) {
  const Pack<T> shift(mean);
  const Pack<T> slope(factor);
  const Pack<T> level(bias);
  for (std::int64_t i = 0; i < from.planes; ++i)
    for_each_pack<T>(0, from.size, [&, x = from.plane(i), y = to.plane(i)](std::int64_t j, std::int64_t count) {
      store_narrow_up_to((load_wide_up_to(x + j, count) - shift) * slope + level, y + j, count);
    });
}

/// Sums over a channel.
struct GradientSums {
  double along = 0;  // of dy n, with n = (x - mean) scale
  double level = 0;  // of dy

  void join(const GradientSums& other) {
    along += other.along;
    level += other.level;
  }
};

template <class S, class T = ComputedIn<S>>
GradientSums sums_of(const ChannelPart<S>& x, const ChannelPart<S>& dy, T mean, T scale) {
  const Pack<T> shift(mean);
  const Pack<T> factor(scale);
  GradientSums sums;
  for (std::int64_t i = 0; i < x.planes; ++i) {
    PackSum<T> along;
    PackSum<T> level;
    for_each_pack<T>(0, x.size, [&, from = x.plane(i), g = dy.plane(i)](std::int64_t j, std::int64_t count) {
      const Pack<T> upstream = load_wide_up_to(g + j, count);
      level.add(upstream);
      along.add(upstream * ((load_wide_up_to(from + j, count) - shift) * factor));
    });
    sums.along += along.total();
    sums.level += level.total();
  }
  return sums;
}

/// weight scale (dy - mean(dy) - n mean(dy n)).
template <class S, class T = ComputedIn<S>> void write_gradient(const ChannelPart<S>& x, const ChannelPart<S>& dy,
                                                                T mean, T scale, T weight, const GradientSums& sums,
                                                                double elements, const ChannelPart<S>& to) {
  const Pack<T> shift(mean);
  const Pack<T> factor(scale);
  const Pack<T> slope(scale * weight);
  const Pack<T> mean_level(static_cast<T>(sums.level / elements));
  const Pack<T> mean_along(static_cast<T>(sums.along / elements));
  for (std::int64_t i = 0; i < x.planes; ++i)
    for_each_pack<T>(
        0, x.size, [&, from = x.plane(i), g = dy.plane(i), dx = to.plane(i)](std::int64_t j, std::int64_t count) {
          const Pack<T> normalized = (load_wide_up_to(from + j, count) - shift) * factor;
          store_narrow_up_to(slope * (load_wide_up_to(g + j, count) - mean_level - normalized * mean_along), dx + j,
                             count);
        });
}

/// The channels of [n, channels, size] in parts of whole planes, for threads: by size alone, so that sums do not depend
/// on the number of threads.
class ChannelParts {
 public:
  explicit ChannelParts(const Array& input)
      : planes_(input.length(0)),
        channels_(input.length(1)),
        size_(input.length(2)),
        planes_of_part_(std::clamp<std::int64_t>(kMostElements / size_, 1, planes_)),
        parts_(divide_up(planes_, planes_of_part_)) {}

  double elements() const { return static_cast<double>(planes_ * size_); }

  template <class S> ChannelPart<S> of(const Array& array, std::int64_t channel, std::int64_t part) const {
    const std::int64_t first = part * planes_of_part_;
    return {array.data<S>() + (first * channels_ + channel) * size_, std::min(planes_of_part_, planes_ - first), size_,
            channels_ * size_};
  }

  /// Joins `sum(channel, part)` of the parts of each channel, and calls `use(channel, part, all)` for the parts then.
  /// A channel of one part is used while it is in the second cache.
  template <class Sums, class Sum, class Use> void run(ThreadPool& threads, const Sum& sum, const Use& use) const {
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (planes_of_part_ * size_));
    const std::int64_t all = channels_ * parts_;
    if (parts_ == 1) {
      threads.parallel_for(all, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) use(i, std::int64_t{0}, sum(i, std::int64_t{0}));
      });
      return;
    }
    CachedVector<Sums> sums(static_cast<std::size_t>(all));
    const auto of_channel = [&](std::int64_t channel) { return static_cast<std::size_t>(channel * parts_); };
    threads.parallel_for(all, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sums[static_cast<std::size_t>(i)] = sum(i / parts_, i % parts_);
    });
    for (std::int64_t channel = 0; channel < channels_; ++channel)
      for (std::size_t i = 1; i < static_cast<std::size_t>(parts_); ++i)
        sums[of_channel(channel)].join(sums[of_channel(channel) + i]);
    threads.parallel_for(all, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) use(i / parts_, i % parts_, sums[of_channel(i / parts_)]);
    });
  }

 private:
  static constexpr std::int64_t kMostElements = 65536;  // half of a second cache
  static constexpr std::int64_t kGrain = 16384;
  std::int64_t planes_;
  std::int64_t channels_;
  std::int64_t size_;
  std::int64_t planes_of_part_;
  std::int64_t parts_;
};

}  // namespace

void CpuBackend::normalize_channels(double epsilon, const Array& input, const Array& weight, const Array& bias,
                                    const Array& output, const Array& mean, const Array& variance) {
  const auto work = [epsilon, &pool = threads(output.device())](const Array& from, const Array& w, const Array& b,
                                                                const Array& to, const Array& means,
                                                                const Array& variances) {
    const ChannelParts parts(from);
    visit_any_floating(from.dtype(), [&]<class S>(std::type_identity<S>) {
      using T = ComputedIn<S>;
      const auto moments = [&](std::int64_t channel, std::int64_t part) {
        return moments_of(parts.of<S>(from, channel, part));
      };
      parts.run<ChannelMoments>(pool, moments, [&](std::int64_t channel, std::int64_t part, const ChannelMoments& all) {
        const auto shift = static_cast<T>(all.mean);
        const auto spread = static_cast<T>(all.variance());
        if (part == 0) {
          means.data<T>()[channel] = shift;
          variances.data<T>()[channel] = spread;
        }
        normalize(parts.of<S>(from, channel, part), shift,
                  scale_of(spread, epsilon) * number_of_channel(w, channel, T(1)), number_of_channel(b, channel, T(0)),
                  parts.of<S>(to, channel, part));
      });
    });
  };
  stream(output.device()).launch("normalize_channels", work, input, weight, bias, output, mean, variance);
}

void CpuBackend::normalize_channels_gradient(double epsilon, const Array& input, const Array& weight, const Array& mean,
                                             const Array& variance, const Array& gradient, const Array& input_gradient,
                                             const Array& weight_gradient, const Array& bias_gradient) {
  const auto work = [epsilon, &pool = threads(input.device())](const Array& from, const Array& w, const Array& means,
                                                               const Array& variances, const Array& dy, const Array& dx,
                                                               const Array& dw, const Array& db) {
    const ChannelParts parts(from);
    visit_any_floating(from.dtype(), [&]<class S>(std::type_identity<S>) {
      using T = ComputedIn<S>;
      const auto scale = [&](std::int64_t channel) { return scale_of(variances.data<T>()[channel], epsilon); };
      const auto sums = [&](std::int64_t channel, std::int64_t part) {
        return sums_of(parts.of<S>(from, channel, part), parts.of<S>(dy, channel, part), means.data<T>()[channel],
                       scale(channel));
      };
      parts.run<GradientSums>(pool, sums, [&](std::int64_t channel, std::int64_t part, const GradientSums& all) {
        if (part == 0) {
          set_number_of_channel<T>(dw, channel, all.along);
          set_number_of_channel<T>(db, channel, all.level);
        }
        if (dx.defined())
          write_gradient(parts.of<S>(from, channel, part), parts.of<S>(dy, channel, part), means.data<T>()[channel],
                         scale(channel), number_of_channel(w, channel, T(1)), all, parts.elements(),
                         parts.of<S>(dx, channel, part));
      });
    });
  };
  stream(input.device())
      .launch("normalize_channels_gradient", work, input, weight, mean, variance, gradient, input_gradient,
              weight_gradient, bias_gradient);
}

}  // namespace tutti
