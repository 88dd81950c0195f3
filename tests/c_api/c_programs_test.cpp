// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/c_api/c_programs.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/onnx/model_writer.h>

#include <doctest/doctest.h>

TEST_CASE("C API: tensors, in C") { CHECK(c_tensors() == 0); }
TEST_CASE("C API: errors, in C") { CHECK(c_errors() == 0); }
TEST_CASE("C API: models, in C") {
  const tutti::testing::TemporaryFolder folder;
  tutti::testing::write_file(folder.file("layer.onnx"), tutti::testing::model_bytes(tutti::testing::small_layer()));
  CHECK(c_models(folder.path().c_str()) == 0);
}
TEST_CASE("C API: a training on one device, in C") { CHECK(c_training() == 0); }
TEST_CASE("C API: a training on several devices, in C") { CHECK(c_groups() == 0); }
TEST_CASE("C API: groups that fail, in C") { CHECK(c_failing_groups() == 0); }
