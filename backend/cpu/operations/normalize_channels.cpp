// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/row_sums.h>

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

using namespace row_sums;

/// One channel of [n, channels, size]: n planes of `size` elements. The next reading of a channel that fits the second
/// cache finds it there, so all that is computed of one comes before the next.
template <class T> struct Channel {
  T* data;
  std::int64_t planes;
  std::int64_t size;
  std::int64_t apart;

  static Channel of(const Array& array, std::int64_t channel) {
    return {array.data<T>() + channel * array.length(2), array.length(0), array.length(2),
            array.length(1) * array.length(2)};
  }
  T* plane(std::int64_t i) const { return data + i * apart; }
  double count() const { return static_cast<double>(planes * size); }
};

struct ChannelMoments {
  double mean;
  double variance;  // biased
};

// Reads memory once: planes around means of their own, joined as in Chan et al., "Updating Formulae and a Pairwise
// Algorithm for Computing Sample Variances" (1979).
template <class T> ChannelMoments moments_of(const Channel<T>& x) {
  const auto size = static_cast<double>(x.size);
  double count = 0;
  double mean = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < x.planes; ++i, count += size) {
    const double own = sum_in_double(x.plane(i), x.size) / size;
    const T around = static_cast<T>(own);
    const double rounding = own - static_cast<double>(around);
    const double distance = own - mean;
    squares += squares_around(around, x.plane(i), x.size) - size * rounding * rounding +
               distance * distance * count * size / (count + size);
    mean += distance * size / (count + size);
  }
  return {mean, squares < 0 ? 0 : squares / count};  // NaN stays
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

template <class T> void normalize(const Channel<T>& from, T mean, T factor, T bias, const Channel<T>& to) {
  const Pack<T> shift(mean);
  const Pack<T> slope(factor);
  const Pack<T> level(bias);
  for (std::int64_t i = 0; i < from.planes; ++i)
    for_each_pack<T>(0, from.size, [&, x = from.plane(i), y = to.plane(i)](std::int64_t j, std::int64_t count) {
      store_up_to((load_up_to(x + j, count) - shift) * slope + level, y + j, count);
    });
}

/// Sums over a channel.
struct GradientSums {
  double along;  // of dy n, with n = (x - mean) scale
  double level;  // of dy
};

template <class T> GradientSums sums_of(const Channel<T>& x, const Channel<T>& dy, T mean, T scale) {
  const Pack<T> shift(mean);
  const Pack<T> factor(scale);
  GradientSums sums{0, 0};
  for (std::int64_t i = 0; i < x.planes; ++i) {
    PackSum<T> along;
    PackSum<T> level;
    for_each_pack<T>(0, x.size, [&, from = x.plane(i), g = dy.plane(i)](std::int64_t j, std::int64_t count) {
      const Pack<T> upstream = load_up_to(g + j, count);
      level.add(upstream);
      along.add(upstream * ((load_up_to(from + j, count) - shift) * factor));
    });
    sums.along += along.total();
    sums.level += level.total();
  }
  return sums;
}

/// weight scale (dy - mean(dy) - n mean(dy n)).
template <class T> void write_gradient(const Channel<T>& x, const Channel<T>& dy, T mean, T scale, T weight,
                                       const GradientSums& sums, const Channel<T>& to) {
  const Pack<T> shift(mean);
  const Pack<T> factor(scale);
  const Pack<T> slope(scale * weight);
  const Pack<T> mean_level(static_cast<T>(sums.level / x.count()));
  const Pack<T> mean_along(static_cast<T>(sums.along / x.count()));
  for (std::int64_t i = 0; i < x.planes; ++i)
    for_each_pack<T>(
        0, x.size, [&, from = x.plane(i), g = dy.plane(i), dx = to.plane(i)](std::int64_t j, std::int64_t count) {
          const Pack<T> normalized = (load_up_to(from + j, count) - shift) * factor;
          store_up_to(slope * (load_up_to(g + j, count) - mean_level - normalized * mean_along), dx + j, count);
        });
}

/// Calls `f(channel)` for all channels of [n, channels, size].
template <class F> void for_each_channel(ThreadPool& threads, const Array& input, const F& f) {
  constexpr std::int64_t kGrain = 16384;  // elements
  const std::int64_t elements = std::max<std::int64_t>(1, input.length(0) * input.length(2));
  threads.parallel_for(input.length(1), std::max<std::int64_t>(1, kGrain / elements),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t channel = begin; channel < end; ++channel) f(channel);
                       });
}

}  // namespace

void CpuBackend::normalize_channels(double epsilon, const Array& input, const Array& weight, const Array& bias,
                                    const Array& output, const Array& mean, const Array& variance) {
  const auto work = [epsilon, &pool = threads(output.device())](const Array& from, const Array& w, const Array& b,
                                                                const Array& to, const Array& means,
                                                                const Array& variances) {
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      for_each_channel(pool, from, [&](std::int64_t channel) {
        const auto x = Channel<T>::of(from, channel);
        const ChannelMoments found = moments_of(x);
        set_number_of_channel<T>(means, channel, found.mean);
        set_number_of_channel<T>(variances, channel, found.variance);
        const T scale = scale_of(static_cast<T>(found.variance), epsilon);
        normalize(x, static_cast<T>(found.mean), scale * number_of_channel(w, channel, T(1)),
                  number_of_channel(b, channel, T(0)), Channel<T>::of(to, channel));
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
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      for_each_channel(pool, from, [&](std::int64_t channel) {
        const auto x = Channel<T>::of(from, channel);
        const auto g = Channel<T>::of(dy, channel);
        const T shift = means.data<T>()[channel];
        const T scale = scale_of(variances.data<T>()[channel], epsilon);
        const GradientSums sums = sums_of(x, g, shift, scale);
        set_number_of_channel<T>(dw, channel, sums.along);
        set_number_of_channel<T>(db, channel, sums.level);
        if (dx.defined())
          write_gradient(x, g, shift, scale, number_of_channel(w, channel, T(1)), sums, Channel<T>::of(dx, channel));
      });
    });
  };
  stream(input.device())
      .launch("normalize_channels_gradient", work, input, weight, mean, variance, gradient, input_gradient,
              weight_gradient, bias_gradient);
}

}  // namespace tutti
