// SPDX-License-Identifier: Apache-2.0
// The header of operations alone is enough to print tensors and to catch errors.
#include <tutti/autodiff/operations.h>

#include <doctest/doctest.h>

#include <sstream>
#include <string>

TEST_CASE("print: a tensor, and an error that is caught, with no other header") {
  std::ostringstream stream;
  stream << tutti::tensor({1.0, 2.5});
  CHECK(stream.str() == "[1.  2.5] f32 [2] on cpu:0");
  std::string told;
  try {
    tutti::zeros({2}) + tutti::zeros({3});
  } catch (const tutti::ShapeError& error) {
    told = error.what();
  } catch (const tutti::Error&) {
    told = "another error";
  }
  CHECK(told.find("[add]") == 0);
}
