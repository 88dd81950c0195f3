// SPDX-License-Identifier: Apache-2.0
// Any file is read or refused, and what is read is all that the header says.
#include <tutti/backend/error.h>
#include <tutti/tests/fuzz/input_file.h>
#include <tutti/tests/fuzz/require.h>
#include <tutti/train/data/idx.h>

using namespace tutti;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) try {
  const testing::InputFile input(data, bytes);
  const Array array = read_idx(input.path());
  testing::require(array.is_contiguous() && array.size() == element_count(array.shape()));
  return 0;
} catch (const DataError&) {
  return 0;
}
