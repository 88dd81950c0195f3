// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/train/data/batch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tutti {

/// Examples that are fetched by number, from 0. Immutable: everything may be called from several threads.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  /// These examples, in this order, along a new first axis; none gives arrays whose first length is 0. Inputs, targets
  /// and size are set. Throws ShapeError for a number out of range, DataError for what cannot be read.
  virtual Batch batch(std::span<const std::int64_t> examples, Device) const = 0;
  /// Text that tells it from other data sets, as far as that is known without reading it all; no path. Positions of
  /// streams are compared by it.
  virtual std::string description() const = 0;
};

/// A data set in memory: entry i of the first axis of both arrays is example i.
struct Examples {
  Array inputs;
  Array targets;

  std::int64_t size() const { return inputs.length(0); }
};

/// Throws ShapeError unless inputs and targets are defined and equally many.
void check_examples(const Examples&);

/// Copies the examples into host memory. Throws as check_examples does.
std::shared_ptr<const Dataset> make_dataset(const Examples&);
/// Uses arrays on CPU devices where they lie, in a mapped file for example: nobody may write to them any more.
std::shared_ptr<const Dataset> share_dataset(const Examples&);

struct SplitExamples {
  Examples first;
  Examples second;
};

/// Divides at random: the first part gets `fraction` of the examples, rounded, at least one, and the second the rest. A
/// function of the seed. Throws Error unless 0 < fraction < 1 and there are at least two examples.
SplitExamples split(const Examples&, double fraction, std::uint64_t seed);

/// Reads 8 x 8 grey images from a CSV file, plain or compressed with gzip: on each line 64 pixels from 0 to 16, row by
/// row, then the digit, 0 to 9 (UCI's "Optical Recognition of Handwritten Digits"). Gives inputs [n, 1, 8, 8] f32,
/// pixels divided by 16, and targets [n] i64, both on cpu:0. Throws DataError with path and line for a file that is
/// missing, truncated, empty or malformed in any way.
Examples load_digits(const std::string& path);

}  // namespace tutti
