// SPDX-License-Identifier: Apache-2.0
#pragma once

// A convolution and its gradients as matrix products whose operands are not made: each says where the elements of
//   result [m, n] = sum over k of lhs [m, k] x rhs [k, n]
// stand in the arrays. Lhs and result elements always exist; rhs elements that lie in the padding are kNone and count
// as zero. What depends on k or n alone (`Row`, `Column`) is worked out once for many elements. Each group of channels
// is such a product: offsets are within a group's, which begins `lhs_step` (`rhs_step`, `result_step`) elements after
// that of the group before.

#include <tutti/backend/cuda/kernels/parts/strided_axes.h>
#include <tutti/backend/dtype.h>

#include <cstddef>

namespace tutti::cuda_kernels {

inline constexpr std::int64_t kNone = -1;

/// One axis of images, kernels and outputs: tap r of output o reads element o * stride - padding + r * dilation.
/// Padded lengths fit into 32 bits, twice.
struct ConvolvedAxis {
  static constexpr std::int64_t kMostPadded = std::int64_t{1} << 30U;

  std::int64_t length;
  std::int64_t kernel;
  std::int64_t out_length;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t dilation;
};

struct Convolution {
  std::int64_t images;
  std::int64_t channels;      // number in a group
  std::int64_t out_channels;  // number in a group
  ConvolvedAxis rows;
  ConvolvedAxis columns;
  std::int64_t groups = 1;

  TUTTI_HOST_DEVICE std::int64_t group_size() const { return channels * rows.length * columns.length; }
  TUTTI_HOST_DEVICE std::int64_t image_size() const { return groups * group_size(); }
  TUTTI_HOST_DEVICE std::int64_t output_group_size() const { return out_channels * positions(); }
  TUTTI_HOST_DEVICE std::int64_t output_size() const { return groups * output_group_size(); }
  TUTTI_HOST_DEVICE std::int64_t weights() const { return out_channels * taps(); }  // number in a group
  TUTTI_HOST_DEVICE std::int64_t kernel_size() const { return rows.kernel * columns.kernel; }
  TUTTI_HOST_DEVICE std::int64_t taps() const { return channels * kernel_size(); }
  TUTTI_HOST_DEVICE std::int64_t positions() const { return rows.out_length * columns.out_length; }
};

/// Tap (channel, r, s) as what it adds to a position's first row, column and offset in an image.
struct Tap {
  std::int32_t row;
  std::int32_t column;
  std::int64_t offset;  // offset of (channel, row, column)

  TUTTI_HOST_DEVICE static Tap of(const Convolution& c, std::int64_t tap) {
    const Division line = divide(tap, c.columns.kernel);
    const Division channel = divide(line.quotient, c.rows.kernel);
    const std::int64_t row = channel.remainder * c.rows.dilation;
    const std::int64_t column = line.remainder * c.columns.dilation;
    return {static_cast<std::int32_t>(row), static_cast<std::int32_t>(column),
            (channel.quotient * c.rows.length + row) * c.columns.length + column};
  }
};

/// The place where output position (image, y, x) begins to read, possibly in the padding.
struct Position {
  std::int32_t row;
  std::int32_t column;
  std::int64_t input;   // offset of (image, 0, row, column) in the input
  std::int64_t output;  // offset of (image, 0, y, x) in the output

  TUTTI_HOST_DEVICE static Position of(const Convolution& c, std::int64_t position) {
    const Division image = divide(position, c.positions());
    const Division line = divide(image.remainder, c.columns.out_length);
    const std::int64_t row = line.quotient * c.rows.stride - c.rows.padding;
    const std::int64_t column = line.remainder * c.columns.stride - c.columns.padding;
    return {static_cast<std::int32_t>(row), static_cast<std::int32_t>(column),
            image.quotient * c.image_size() + row * c.columns.length + column,
            image.quotient * c.output_size() + image.remainder};
  }
};

TUTTI_HOST_DEVICE inline std::int64_t input_offset(const Convolution& c, const Tap& tap, const Position& at) {
  const std::int32_t row = at.row + tap.row;
  const std::int32_t column = at.column + tap.column;
  const bool inside = row >= 0 && row < c.rows.length && column >= 0 && column < c.columns.length;
  return inside ? at.input + tap.offset : kNone;
}

/// output [out_channels, images x positions] = weight [out_channels, taps] x input as taps see it.
struct ForwardProduct {
  static constexpr bool kReadsAlongK = false;  // neighbours in n, not in k, are neighbours in memory
  using Row = Tap;
  using Column = Position;
  Convolution c;

  TUTTI_HOST_DEVICE std::int64_t lhs_step() const { return c.weights(); }
  TUTTI_HOST_DEVICE std::int64_t rhs_step() const { return c.group_size(); }
  TUTTI_HOST_DEVICE std::int64_t result_step() const { return c.output_group_size(); }
  TUTTI_HOST_DEVICE std::int64_t m() const { return c.out_channels; }
  TUTTI_HOST_DEVICE std::int64_t n() const { return c.images * c.positions(); }
  TUTTI_HOST_DEVICE std::int64_t k() const { return c.taps(); }
  TUTTI_HOST_DEVICE Row row(std::int64_t k) const { return Tap::of(c, k); }
  TUTTI_HOST_DEVICE Column column(std::int64_t n) const { return Position::of(c, n); }
  TUTTI_HOST_DEVICE std::int64_t lhs(std::int64_t m, std::int64_t k, const Row&) const { return m * c.taps() + k; }
  TUTTI_HOST_DEVICE std::int64_t rhs(const Row& tap, const Column& at) const { return input_offset(c, tap, at); }
  TUTTI_HOST_DEVICE std::int64_t result(std::int64_t m, std::int64_t n) const {
    return Position::of(c, n).output + m * c.positions();
  }
};

/// input gradient [channels, images x elements] = weight [channels, out_channels x kernel] x output gradient as the
/// elements were read: element i was read by tap r of output o if i = o * stride - padding + r * dilation.
struct InputGradientProduct {
  static constexpr bool kReadsAlongK = false;
  struct Row {
    std::int32_t row;     // r * dilation
    std::int32_t column;  // s * dilation
    std::int64_t output;  // offset of the out channel
    std::int64_t weight;  // offset of (out channel, channel 0, r, s)
  };
  struct Column {
    std::int32_t row;  // row of the element, from the padding's edge on
    std::int32_t column;
    std::int64_t output;  // offset of the image in the output gradient
  };
  Convolution c;

  TUTTI_HOST_DEVICE std::int64_t lhs_step() const { return c.weights(); }
  TUTTI_HOST_DEVICE std::int64_t rhs_step() const { return c.output_group_size(); }
  TUTTI_HOST_DEVICE std::int64_t result_step() const { return c.group_size(); }
  TUTTI_HOST_DEVICE std::int64_t m() const { return c.channels; }
  TUTTI_HOST_DEVICE std::int64_t n() const { return c.images * c.rows.length * c.columns.length; }
  TUTTI_HOST_DEVICE std::int64_t k() const { return c.out_channels * c.kernel_size(); }
  TUTTI_HOST_DEVICE Row row(std::int64_t k) const {
    const Division line = divide(k, c.columns.kernel);
    const Division channel = divide(line.quotient, c.rows.kernel);
    return {static_cast<std::int32_t>(channel.remainder * c.rows.dilation),
            static_cast<std::int32_t>(line.remainder * c.columns.dilation), channel.quotient * c.positions(),
            channel.quotient * c.taps() + channel.remainder * c.columns.kernel + line.remainder};
  }
  TUTTI_HOST_DEVICE Column column(std::int64_t n) const {
    const Division line = divide(n, c.columns.length);
    const Division image = divide(line.quotient, c.rows.length);
    return {static_cast<std::int32_t>(image.remainder + c.rows.padding),
            static_cast<std::int32_t>(line.remainder + c.columns.padding), image.quotient * c.output_size()};
  }
  TUTTI_HOST_DEVICE std::int64_t lhs(std::int64_t m, std::int64_t, const Row& tap) const {
    return tap.weight + m * c.kernel_size();
  }
  TUTTI_HOST_DEVICE std::int64_t rhs(const Row& tap, const Column& at) const {
    const std::int32_t row = at.row - tap.row;
    const std::int32_t column = at.column - tap.column;
    if (row < 0 || column < 0) return kNone;
    const Division y = windows_to(row, c.rows.stride);
    const Division x = windows_to(column, c.columns.stride);
    const bool was_read =
        y.remainder == 0 && x.remainder == 0 && y.quotient < c.rows.out_length && x.quotient < c.columns.out_length;
    return was_read ? at.output + tap.output + y.quotient * c.columns.out_length + x.quotient : kNone;
  }
  TUTTI_HOST_DEVICE std::int64_t result(std::int64_t m, std::int64_t n) const {
    const std::int64_t plane = c.rows.length * c.columns.length;
    const Division image = divide(n, plane);
    return image.quotient * c.image_size() + m * plane + image.remainder;
  }

 private:
  TUTTI_HOST_DEVICE static Division windows_to(std::int64_t distance, std::int64_t stride) {
    return stride == 1 ? Division{distance, 0} : divide(distance, stride);
  }
};

/// weight gradient [out_channels, taps] = output gradient [out_channels, images x positions] x input as positions read.
struct WeightGradientProduct {
  static constexpr bool kReadsAlongK = true;
  using Row = Position;
  using Column = Tap;
  Convolution c;

  TUTTI_HOST_DEVICE std::int64_t lhs_step() const { return c.output_group_size(); }
  TUTTI_HOST_DEVICE std::int64_t rhs_step() const { return c.group_size(); }
  TUTTI_HOST_DEVICE std::int64_t result_step() const { return c.weights(); }
  TUTTI_HOST_DEVICE std::int64_t m() const { return c.out_channels; }
  TUTTI_HOST_DEVICE std::int64_t n() const { return c.taps(); }
  TUTTI_HOST_DEVICE std::int64_t k() const { return c.images * c.positions(); }
  TUTTI_HOST_DEVICE Row row(std::int64_t k) const { return Position::of(c, k); }
  TUTTI_HOST_DEVICE Column column(std::int64_t n) const { return Tap::of(c, n); }
  TUTTI_HOST_DEVICE std::int64_t lhs(std::int64_t m, std::int64_t, const Row& at) const {
    return at.output + m * c.positions();
  }
  TUTTI_HOST_DEVICE std::int64_t rhs(const Row& at, const Column& tap) const { return input_offset(c, tap, at); }
  TUTTI_HOST_DEVICE std::int64_t result(std::int64_t m, std::int64_t n) const { return m * c.taps() + n; }
};

/// Element i of all groups' results, [groups, m, n].
struct Place {
  std::int64_t group;
  std::int64_t m;
  std::int64_t n;

  template <class Product> TUTTI_HOST_DEVICE Place(const Product& product, std::int64_t i) {
    const Division line = divide(i, product.n());
    const Division groups = divide(line.quotient, product.m());
    group = groups.quotient;
    m = groups.remainder;
    n = line.remainder;
  }
};

/// How the sum over k of a product is cut, by its sizes alone: parts of `length`, added up in order by a second kernel.
/// One part where the tiles of the result occupy a large device anyway.
struct SumParts {
  static constexpr std::int64_t kTile = 64;  // rows and columns of the result that a block computes
  static constexpr std::int64_t kDepth = 16;

  std::int64_t count;
  std::int64_t length;

  static constexpr SumParts of(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t groups = 1) {
    constexpr std::int64_t kBlocks = 512;   // wanted
    constexpr std::int64_t kShortest = 16;  // steps of kDepth
    const std::int64_t tiles = groups * divide_up(m, kTile) * divide_up(n, kTile);
    const std::int64_t steps = divide_up(k, kDepth);
    const std::int64_t most = steps / kShortest < kBlocks / tiles ? steps / kShortest : kBlocks / tiles;
    const std::int64_t length = divide_up(steps, most > 1 ? most : 1) * kDepth;
    return {divide_up(k, length), length};
  }
  template <class Product> static constexpr SumParts of(const Product& product) {
    return of(product.m(), product.n(), product.k(), product.c.groups);
  }
};

/// True if the products of groups are so narrow that tiles would be nearly empty: threads then sum alone, or those of a
/// block together where the sums are long.
TUTTI_HOST_DEVICE inline bool is_narrow(const Convolution& c) {
  return c.groups > 1 && c.channels * c.out_channels <= 16;
}

/// Bytes of workspace for the parts of a product's sum.
template <class Product> std::size_t partial_bytes(const Product& product, DType dtype) {
  if (is_narrow(product.c)) return 0;
  const std::int64_t parts = SumParts::of(product).count;
  return parts == 1 ? 0
                    : static_cast<std::size_t>(parts * product.c.groups * product.m() * product.n()) * size_of(dtype);
}

}  // namespace tutti::cuda_kernels
