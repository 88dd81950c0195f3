// SPDX-License-Identifier: Apache-2.0
// Any file is read or refused, and the same whether it is mapped or copied.
#include <tutti/backend/error.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/exchange/npy.h>
#include <tutti/tests/fuzz/input_file.h>
#include <tutti/tests/fuzz/require.h>

using namespace tutti;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) try {
  const testing::InputFile input(data, bytes);
  const Array mapped = read_npy(input.path());
  const Array copied = read_npy(input.path(), {.map = false});
  testing::require(mapped.shape() == copied.shape() && host_bytes(mapped) == host_bytes(copied));
  return 0;
} catch (const DataError&) {
  return 0;
}
