// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/dataset.h>

#include <cstdint>
#include <string>

namespace tutti {

struct IdxOptions {
  std::uint64_t most_unpacked_bytes = 0;  ///< limit for a file; 0: 1 GiB or a hundred times the file, whichever is more
};

/// Reads an array in the IDX format (that of MNIST, as its page describes it), plain or compressed with gzip, onto
/// cpu:0: types u8, i8, i16 (which becomes i32), i32, f32 and f64, any shape. Nothing of the size that the header
/// claims is allocated before the file has delivered it. Throws DataError with path and offset for a file that is
/// missing, damaged, truncated, too long or malformed.
Array read_idx(const std::string& path, const IdxOptions& = {});

/// Images and labels as MNIST has them: inputs of any shape [n, ...] in the file's type, targets [n] as i64. Throws as
/// read_idx does, and DataError unless both files hold as many and the labels are whole numbers.
Examples read_idx_examples(const std::string& inputs, const std::string& targets, const IdxOptions& = {});

/// Images and labels, as read_idx_examples, from two files in NumPy's format. Arrays share private mappings of the
/// files.
Examples read_npy_examples(const std::string& inputs, const std::string& targets);

}  // namespace tutti
