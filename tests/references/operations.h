// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/tests/references/reference_file.h>

#include <string>
#include <vector>

namespace tutti::testing {

/// What an operation of the table is called with.
struct Call {
  std::vector<Tensor> x;
  Attributes attributes;
};

struct Results : std::vector<Tensor> {
  Results(const Tensor& one) : std::vector<Tensor>{one} {}                   // NOLINT: conversions are the point
  Results(std::vector<Tensor> all) : std::vector<Tensor>(std::move(all)) {}  // NOLINT
};

struct Operation {
  std::string name;      ///< in the files
  std::string declared;  ///< in the headers
  Results (*run)(const Call&);
};

/// Of the lists of backend/elementwise, by the names of the structs.
std::vector<Operation> elementwise_operations();
std::vector<Operation> shape_operations();
std::vector<Operation> structured_operations();

std::vector<Operation> all_operations();

}  // namespace tutti::testing
