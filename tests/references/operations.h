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

  Tensor input(std::size_t place) const { return place < x.size() ? x[place] : Tensor(); }  ///< or undefined
};

struct Results : std::vector<Tensor> {
  Results(const Tensor& one) : std::vector<Tensor>{one} {}                   // NOLINT: conversions are the point
  Results(std::vector<Tensor> all) : std::vector<Tensor>(std::move(all)) {}  // NOLINT
};

struct Operation {
  std::string name;      ///< in the files
  std::string declared;  ///< in the headers; one name or several
  Results (*run)(const Call&);
};

/// An entry of a table: an operation that is declared by another name in the headers, or several, and a call of it.
#define TUTTI_REFERENCE_OF(name, declared, ...)                            \
  {                                                                        \
    #name, #declared, [](const Call& c) -> Results { return __VA_ARGS__; } \
  }
/// The same of one name.
#define TUTTI_REFERENCE(name, ...) TUTTI_REFERENCE_OF(name, name, __VA_ARGS__)

// Attributes that many calls have.
inline Axes axes(const Call& c) { return c.attributes.integers("axes"); }
inline std::int64_t axis(const Call& c) { return c.attributes.integer("axis"); }
inline bool keep(const Call& c) { return c.attributes.flag("keep_dims"); }

/// An operation that makes tensors of numbers alone, and a call of it.
struct CreationCase {
  Operation operation;
  ReferenceCase reference;
};
std::vector<CreationCase> creation_cases();

/// Whether the text begins with one of the operation's names, between these; capitals count as others.
bool begins_with_name(const std::string& text, const Operation&, const std::string& before, const std::string& behind);

/// Whether another name follows that of an error: "[tile] broadcast_to: shape ...".
bool names_inner_operation(const std::string& error);

/// Of the lists of backend/elementwise, by the names of the structs.
std::vector<Operation> elementwise_operations();
std::vector<Operation> shape_operations();
std::vector<Operation> structured_operations();
std::vector<Operation> image_operations();
std::vector<Operation> volume_operations();
std::vector<Operation> sampling_operations();
std::vector<Operation> ordering_operations();
std::vector<Operation> fourier_operations();
std::vector<Operation> layer_operations();
std::vector<Operation> linear_algebra_operations();
std::vector<Operation> function_operations();
std::vector<Operation> loss_operations();
std::vector<Operation> network_operations();

std::vector<Operation> all_operations();

/// The files that have cases of these, without ".safetensors".
std::vector<std::string> reference_files();

}  // namespace tutti::testing
