// SPDX-License-Identifier: Apache-2.0
// Any file is read or refused, and the same whether it is mapped or copied.
#include <tutti/backend/error.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/exchange/npz.h>
#include <tutti/tests/fuzz/input_file.h>
#include <tutti/tests/fuzz/require.h>

using namespace tutti;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) try {
  const testing::InputFile input(data, bytes);
  const NamedArrays mapped = read_npz(input.path());
  const NamedArrays copied = read_npz(input.path(), {.map = false});
  testing::require(mapped.size() == copied.size());
  for (std::size_t i = 0; i < mapped.size(); ++i)
    testing::require(host_bytes(mapped[i].second) == host_bytes(copied[i].second));
  return 0;
} catch (const DataError&) {
  return 0;
}
