// SPDX-License-Identifier: Apache-2.0
// What a compression keeps goes through a file, and training continues with the same bits.
#include <tutti/distributed/power_sgd.h>

#include <tutti/backend/error.h>
#include <tutti/tests/distributed/compressing_group.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/checkpoints/tensor_file.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("compression_state: saved and loaded, it continues bitwise") {
  const TemporaryFolder folder;
  const std::string path = folder.file("power_sgd.safetensors");
  const PowerSgdOptions options{.rank = 2, .start_after = 1, .minimum_rate = 1};
  CompressingGroup whole(options);
  whole.run(4, everything);
  write_tensor_file(path, {.arrays = whole.power->state(), .metadata = {{"step", "4"}}});
  whole.run(3, everything);

  CompressingGroup resumed(options);
  resumed.power->load_state(read_tensor_file(path).arrays);
  resumed.run(3, everything);
  for (std::size_t d = 0; d < kGroupDevices; ++d)
    for (const auto parameter : {&Matrices::wide, &Matrices::kernel, &Matrices::bias})
      CHECK(floats_of((resumed.replicas[d].*parameter).grad()) == floats_of((whole.replicas[d].*parameter).grad()));
  CHECK(resumed.kept("wide", 1) == whole.kept("wide", 1));

  CompressingGroup anew(options);  // the file does matter
  anew.run(3, everything);
  CHECK(floats_of(anew.replicas[0].wide.grad()) != floats_of(whole.replicas[0].wide.grad()));
}

TEST_SUITE_END();
