// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/convolution/winograd.h>

#include <tutti/backend/cpu/convolution/winograd_points.h>
#include <tutti/backend/cpu/convolution/winograd_tiles.h>
#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu/linear_algebra/packing.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>
#include <tutti/backend/cpu/runtime/divide_up.h>
#include <tutti/backend/processor/instruction_sets.h>

#include <algorithm>
#include <array>
#include <type_traits>

namespace tutti {
namespace {

using namespace winograd;

constexpr std::int64_t kAllTaps = kTaps * kTaps;

/// Sizes of a block of tiles, whose values at the points are in caches together.
constexpr std::int64_t kForwardElements = std::int64_t{1} << 18U;
constexpr std::int64_t kFewestTiles = 64;
constexpr std::int64_t kGradientTiles = 256;
constexpr std::int64_t kWeightRows = 96;

constexpr std::int64_t kChannelsOfTask = 4;

/// Steps of a sum in f32 before it is added to the others: the points' values are larger than results, and so is what
/// is rounded.
constexpr std::int64_t kChain = 64;

constexpr std::int64_t kMostElements = std::int64_t{1} << 26U;  // of what is kept for all points

/// What lies in memory for a point: rows, and a few elements more, so that the same element of all points
/// does not lie in the same set of a cache.
constexpr std::int64_t plane_elements(std::int64_t rows, std::int64_t row_length) { return rows * row_length + 48; }

/// lanes[tap][lane] = from[lane * step + tap] for the first `count` lanes.
template <class S>
void turn_taps(const S* from, std::int64_t step, std::int64_t count, float (&lanes)[kAllTaps][kLanes]) {
  constexpr std::int64_t kQuad = packing::kQuadLanes<float>;
  static_assert(kAllTaps == 2 * kQuad + 1);
  std::int64_t lane = 0;
  for (; lane + kQuad <= count; lane += kQuad) {
    const S* rows[kQuad];
    for (std::int64_t part = 0; part < 2; ++part) {
      for (std::int64_t i = 0; i < kQuad; ++i) rows[i] = from + (lane + i) * step + part * kQuad;
      packing::turn_square<S>(rows, &lanes[part * kQuad][lane], kLanes);
    }
    for (std::int64_t i = 0; i < kQuad; ++i) lanes[2 * kQuad][lane + i] = static_cast<float>(rows[i][kQuad]);
  }
  for (; lane < count; ++lane)
    for (std::int64_t tap = 0; tap < kAllTaps; ++tap) lanes[tap][lane] = static_cast<float>(from[lane * step + tap]);
}

}  // namespace

template <class S>
WinogradConvolution<S>::WinogradConvolution(const ConvolutionSizes& of_group, const ConvolutionSizes& of_all,
                                            Device device, MemoryPool& pool, ThreadPool& threads)
    : size_(of_group),
      all_(of_all),
      device_(device),
      pool_(pool),
      threads_(threads),
      tiles_across_(divide_up(of_group.out_width, kResults)),
      tiles_down_(divide_up(of_group.out_height, kResults)) {}

template <class S> bool WinogradConvolution<S>::suits(const ConvolutionSizes& size) {
  constexpr std::array<std::int64_t, 2> kOnes{1, 1};
  if (size.kernel_height != kTaps || size.kernel_width != kTaps || size.geometry.stride != kOnes ||
      size.geometry.dilation != kOnes || !uses_winograd())
    return false;
  if (std::is_same_v<S, BFloat16> && products_of_bf16() != Bf16Products::widened) return false;
  // In multiplications; those that transforms are worth were measured.
  constexpr std::int64_t kOfChannel = 1000, kOfWeight = 1300;
  const std::int64_t pairs = size.channels * size.out_channels;
  const std::int64_t tiles =
      whole_vectors(size.images * divide_up(size.out_height, kResults) * divide_up(size.out_width, kResults));
  const std::int64_t of_row = whole_vectors(divide_up(size.out_width, kResults)) * (size.channels + size.out_channels);
  if (std::max(of_row, pairs) > kMostElements / kPlanes) return false;
  return tiles * (kPlanes * pairs + kOfChannel * (size.channels + size.out_channels)) + kOfWeight * pairs <
         size.images * size.positions() * kAllTaps * pairs;
}

template <class S> std::int64_t WinogradConvolution<S>::rows_for(std::int64_t tiles) const {
  return std::clamp<std::int64_t>(divide_up(tiles, tiles_across_), 1, size_.images * tiles_down_);
}

// Where one block holds all tiles, weights are large beside images: a few of their rows are in caches at a time.
template <class S> std::int64_t WinogradConvolution<S>::weight_rows(std::int64_t rows) const {
  return rows == size_.images * tiles_down_ ? std::min(kWeightRows, size_.out_channels) : size_.out_channels;
}

template <class S> template <class F> void WinogradConvolution<S>::for_each_block(std::int64_t rows, const F& f) const {
  const std::int64_t all = size_.images * tiles_down_;
  for (std::int64_t first = 0; first < all; first += rows)
    f(Block(first, std::min(rows, all - first), tiles_across_, tiles_down_));
}

// points: for each point [channels, count in whole vectors].
template <class S> void WinogradConvolution<S>::evaluate_weight(const S* weight, bool is_of_gradient,
                                                                std::int64_t first_row, std::int64_t count,
                                                                float* points) const {
  constexpr std::int64_t kChannels = 32;  // of a task
  const std::int64_t length = whole_vectors(count);
  const std::int64_t plane = plane_elements(size_.channels, length);
  const std::int64_t of_row = (is_of_gradient ? 1 : size_.channels) * kAllTaps;
  const std::int64_t of_channel = (is_of_gradient ? size_.out_channels : 1) * kAllTaps;
  const std::int64_t vectors = length / kLanes;
  threads_.parallel_for(divide_up(size_.channels, kChannels) * vectors, 1, [&](std::int64_t task, std::int64_t) {
    const std::int64_t k = task % vectors * kLanes;
    const std::int64_t first = task / vectors * kChannels;
    for (std::int64_t c = first; c < std::min(first + kChannels, size_.channels); ++c) {
      float lanes[kAllTaps][kLanes] = {};
      Vector taps[kAllTaps], across[kTaps * kPoints], at[kPlanes];
      const S* const from = weight + (first_row + k) * of_row + c * of_channel;
      turn_taps(from, of_row, std::min(kLanes, count - k), lanes);
      for (std::int64_t tap = 0; tap < kAllTaps; ++tap)
        taps[tap] = native_load(lanes[is_of_gradient ? kAllTaps - 1 - tap : tap]);
      for (std::int64_t i = 0; i < kTaps; ++i) evaluate_taps(taps + i * kTaps, 1, across + i * kPoints, 1);
      for (std::int64_t j = 0; j < kPoints; ++j) evaluate_taps(across + j, kPoints, at + j, kPoints);
      for (std::int64_t p = 0; p < kPlanes; ++p) native_store<float>(at[p], points + p * plane + c * length + k);
    }
  });
}

// points: for each point [channels, lanes].
template <class S>
void WinogradConvolution<S>::evaluate_images(const Block& block, const S* images, float* points) const {
  const std::int64_t plane = plane_elements(size_.channels, block.lanes);
  threads_.parallel_for(size_.channels, kChannelsOfTask, [&](std::int64_t begin, std::int64_t end) {
    SeenTiles<S> seen(size_, all_.image_size(), block, device_, pool_);
    for (std::int64_t c = begin; c < end; ++c) {
      seen.read(images + c * size_.height * size_.width);
      for (std::int64_t lane = 0; lane < block.lanes; lane += kLanes) {
        Vector across[kPlanes];
        for (std::int64_t i = 0; i < kPoints; ++i) {
          Vector row[kPoints];
          for (std::int64_t j = 0; j < kPoints; ++j) row[j] = native_load(seen.at(i, j) + lane);
          evaluate_seen(row, 1, across + i * kPoints, 1);
        }
        float* const to = points + c * block.lanes + lane;
        for (std::int64_t j = 0; j < kPoints; ++j) {
          Vector at[kPoints];
          evaluate_seen(across + j, kPoints, at, 1);
          for (std::int64_t i = 0; i < kPoints; ++i) native_store<float>(at[i], to + (i * kPoints + j) * plane);
        }
      }
    }
  });
}

// points: for each point [out_channels, lanes].
template <class S>
void WinogradConvolution<S>::evaluate_gradient(const Block& block, const S* gradient, float* points) const {
  const std::int64_t plane = plane_elements(size_.out_channels, block.lanes);
  threads_.parallel_for(size_.out_channels, kChannelsOfTask, [&](std::int64_t begin, std::int64_t end) {
    const Scratch<float> strips(device_, pool_, kResults * block.line());
    std::fill_n(strips.data(), kResults * block.line(), 0.0F);  // zeros beside results stay
    for (std::int64_t k = begin; k < end; ++k) {
      block.for_each_row([&](std::int64_t row, std::int64_t image, std::int64_t top) {
        const S* const from = gradient + image * all_.output_size() + k * size_.positions() + top * size_.out_width;
        for (std::int64_t i = 0; i < std::min(kResults, size_.out_height - top); ++i)
          widen(from + i * size_.out_width, strips.data() + i * block.line() + row * tiles_across_ * kResults,
                size_.out_width);
      });
      for (std::int64_t lane = 0; lane < block.lanes; lane += kLanes) {
        Vector across[kResults * kPoints];
        for (std::int64_t i = 0; i < kResults; ++i) {
          Vector row[kResults];
          part_tiles(strips.data() + i * block.line() + lane * kResults, row);
          spread_results(row, 1, across + i * kPoints, 1);
        }
        float* const to = points + k * block.lanes + lane;
        for (std::int64_t j = 0; j < kPoints; ++j) {
          Vector at[kPoints];
          spread_results(across + j, kPoints, at, 1);
          for (std::int64_t i = 0; i < kPoints; ++i) native_store<float>(at[i], to + (i * kPoints + j) * plane);
        }
      }
    }
  });
}

// points: for each point [count, lanes].
template <class S> void WinogradConvolution<S>::interpolate(const Block& block, const float* points, std::int64_t count,
                                                            S* results) const {
  const std::int64_t plane = plane_elements(count, block.lanes);
  threads_.parallel_for(count, kChannelsOfTask, [&](std::int64_t begin, std::int64_t end) {
    const Scratch<float> strips(device_, pool_, kResults * block.line());
    for (std::int64_t k = begin; k < end; ++k) {
      for (std::int64_t lane = 0; lane < block.lanes; lane += kLanes) {
        const float* const from = points + k * block.lanes + lane;
        Vector down[kResults * kPoints];
        for (std::int64_t j = 0; j < kPoints; ++j) {
          Vector at[kPoints];
          for (std::int64_t i = 0; i < kPoints; ++i) at[i] = native_load(from + (i * kPoints + j) * plane);
          interpolate_results(at, 1, down + j, kPoints);
        }
        for (std::int64_t i = 0; i < kResults; ++i) {
          Vector row[kResults];
          interpolate_results(down + i * kPoints, 1, row, 1);
          join_tiles(row, strips.data() + i * block.line() + lane * kResults);
        }
      }
      block.for_each_row([&](std::int64_t row, std::int64_t image, std::int64_t top) {
        S* const to = results + image * all_.output_size() + k * size_.positions() + top * size_.out_width;
        for (std::int64_t i = 0; i < std::min(kResults, size_.out_height - top); ++i)
          narrow(strips.data() + i * block.line() + row * tiles_across_ * kResults, to + i * size_.out_width,
                 size_.out_width);
      });
    }
  });
}

// points: for each point [count, channels in whole vectors].
template <class S>
void WinogradConvolution<S>::gather_weight(const float* points, std::int64_t count, S* weight) const {
  const std::int64_t length = whole_vectors(size_.channels);
  const std::int64_t plane = plane_elements(count, length);
  threads_.parallel_for(count, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k)
      for (std::int64_t c = 0; c < length; c += kLanes) {
        float lanes[kAllTaps][kLanes];
        Vector at[kPlanes], down[kTaps * kPoints], taps[kAllTaps];
        for (std::int64_t p = 0; p < kPlanes; ++p) at[p] = native_load(points + p * plane + k * length + c);
        for (std::int64_t j = 0; j < kPoints; ++j) gather_taps(at + j, kPoints, down + j, kPoints);
        for (std::int64_t i = 0; i < kTaps; ++i) gather_taps(down + i * kPoints, 1, taps + i * kTaps, 1);
        for (std::int64_t tap = 0; tap < kAllTaps; ++tap) native_store<float>(taps[tap], lanes[tap]);
        S* const to = weight + (k * size_.channels + c) * kAllTaps;
        for (std::int64_t lane = 0; lane < std::min(kLanes, size_.channels - c); ++lane)
          for (std::int64_t tap = 0; tap < kAllTaps; ++tap)
            to[lane * kAllTaps + tap] = static_cast<S>(lanes[tap][lane]);
      }
  });
}

template <class S> void WinogradConvolution<S>::forward(const S* images, const S* weight, S* results) const {
  convolve(images, weight, false, results);
}
template <class S> void WinogradConvolution<S>::input_gradient(const S* gradient, const S* weight, S* images) const {
  convolve(gradient, weight, true, images);
}
template <class S>
void WinogradConvolution<S>::convolve(const S* images, const S* weight, bool is_of_gradient, S* results) const {
  const std::int64_t both = size_.channels + size_.out_channels;
  const std::int64_t rows = rows_for(
      std::max({kFewestTiles, kForwardElements / (kPlanes * both), size_.channels * size_.out_channels / both}));
  const std::int64_t most = weight_rows(rows);
  const Block widest(0, rows, tiles_across_, tiles_down_);
  const Scratch<float> weights(device_, pool_, kPlanes * plane_elements(size_.channels, whole_vectors(most)));
  const Scratch<float> seen(device_, pool_, kPlanes * plane_elements(size_.channels, widest.lanes));
  const Scratch<float> products(device_, pool_, kPlanes * plane_elements(most, widest.lanes));
  for (std::int64_t k = 0; k < size_.out_channels; k += most) {
    const std::int64_t count = std::min(most, size_.out_channels - k);
    const std::int64_t length = whole_vectors(count);
    evaluate_weight(weight, is_of_gradient, k, count, weights.data());
    for_each_block(rows, [&](const Block& block) {
      if (most == size_.out_channels || k == 0) evaluate_images(block, images, seen.data());
      threads_.parallel_for(kPlanes, 1, [&](std::int64_t p, std::int64_t) {
        const float* const of_weight = weights.data() + p * plane_elements(size_.channels, length);
        const float* const of_images = seen.data() + p * plane_elements(size_.channels, block.lanes);
        float* const to = products.data() + p * plane_elements(count, block.lanes);
        for (std::int64_t c = 0; c < size_.channels; c += kChain)
          gemm<float>(count, block.lanes, std::min(kChain, size_.channels - c), {of_weight + c * length, length, true},
                      {of_images + c * block.lanes, block.lanes}, to, block.lanes, c > 0);
      });
      interpolate(block, products.data(), count, results + k * size_.positions());
    });
  }
}

template <class S> void WinogradConvolution<S>::weight_gradient(const S* gradient, const S* images, S* weight) const {
  const std::int64_t length = whole_vectors(size_.channels);
  const std::int64_t rows = rows_for(kGradientTiles);
  const std::int64_t most = weight_rows(rows);
  const Block widest(0, rows, tiles_across_, tiles_down_);
  const Scratch<float> weights(device_, pool_, kPlanes * plane_elements(most, length));
  const Scratch<float> seen(device_, pool_, kPlanes * plane_elements(size_.channels, widest.lanes));
  const Scratch<float> spread(device_, pool_, kPlanes * plane_elements(size_.out_channels, widest.lanes));
  for (std::int64_t k = 0; k < size_.out_channels; k += most) {
    const std::int64_t count = std::min(most, size_.out_channels - k);
    for_each_block(rows, [&](const Block& block) {
      if (k == 0) {
        evaluate_images(block, images, seen.data());
        evaluate_gradient(block, gradient, spread.data());
      }
      threads_.parallel_for(kPlanes, 1, [&](std::int64_t p, std::int64_t) {
        const float* const of_images = seen.data() + p * plane_elements(size_.channels, block.lanes);
        const float* const of_gradient =
            spread.data() + p * plane_elements(size_.out_channels, block.lanes) + k * block.lanes;
        float* const to = weights.data() + p * plane_elements(count, length);
        for (std::int64_t lane = 0; lane < block.lanes; lane += kChain)
          gemm<float>(count, size_.channels, std::min(kChain, block.lanes - lane), {of_gradient + lane, block.lanes},
                      {of_images + lane, block.lanes, true}, to, length, block.first_row > 0 || lane > 0);
      });
    });
    gather_weight(weights.data(), count, weight + k * size_.channels * kAllTaps);
  }
}

template class WinogradConvolution<float>;
template class WinogradConvolution<BFloat16>;
template class WinogradConvolution<Float16>;

}  // namespace tutti
