// SPDX-License-Identifier: Apache-2.0
// Any file is read or refused, and the same whether it is mapped or copied.
#include <tutti/backend/error.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/exchange/safetensors.h>
#include <tutti/tests/fuzz/input_file.h>
#include <tutti/tests/fuzz/require.h>

using namespace tutti;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) try {
  const testing::InputFile input(data, bytes);
  const TensorFile mapped = read_safetensors(input.path(), {.skip_unknown_types = true});
  const TensorFile copied = read_safetensors(input.path(), {.map = false, .skip_unknown_types = true});
  testing::require(mapped.arrays.size() == copied.arrays.size());
  for (std::size_t i = 0; i < mapped.arrays.size(); ++i)
    testing::require(host_bytes(mapped.arrays[i].second) == host_bytes(copied.arrays[i].second));
  return 0;
} catch (const DataError&) {
  return 0;
}
