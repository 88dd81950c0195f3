// SPDX-License-Identifier: Apache-2.0
// Any file is read or refused. The first byte chooses the type and whether there is a header.
#include <tutti/backend/error.h>
#include <tutti/tests/fuzz/input_file.h>
#include <tutti/tests/fuzz/require.h>
#include <tutti/train/data/csv.h>

#include <iterator>

using namespace tutti;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) try {
  if (bytes == 0) return 0;
  const testing::InputFile input(data + 1, bytes - 1);
  const DType dtype = kAllDTypes[data[0] / 2U % std::size(kAllDTypes)];
  const Array array = read_csv(input.path(), {.header = data[0] % 2 == 1}, {.dtype = dtype});
  testing::require(array.rank() == 2 && array.size() > 0 && array.dtype() == dtype);
  return 0;
} catch (const DataError&) {
  return 0;
}
