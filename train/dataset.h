// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <cstdint>
#include <string>

namespace tutti {

/// A data set in memory: entry i of the first axis of both arrays is example i.
struct Examples {
  Array inputs;
  Array targets;

  std::int64_t size() const { return inputs.length(0); }
};

/// Reads 8 x 8 grey images from a CSV file, plain or compressed with gzip: on each line 64 pixels from 0 to 16, row by
/// row, then the digit, 0 to 9 (UCI's "Optical Recognition of Handwritten Digits"). Gives inputs [n, 1, 8, 8] f32,
/// pixels divided by 16, and targets [n] i64, both on cpu:0. Throws DataError with path and line for a file that is
/// missing, truncated, empty or malformed in any way.
Examples load_digits(const std::string& path);

struct SplitExamples {
  Examples first;
  Examples second;
};

/// Divides at random: the first part gets `fraction` of the examples, rounded, at least one, and the second the rest. A
/// function of the seed. Throws Error unless 0 < fraction < 1 and there are at least two examples.
SplitExamples split(const Examples&, double fraction, std::uint64_t seed);

/// Throws ShapeError unless inputs and targets are defined and equally many.
void check_examples(const Examples&);

}  // namespace tutti
