// SPDX-License-Identifier: Apache-2.0
// What the DLPack tests call from Python, through ctypes.
#include <tutti/backend/registry.h>
#include <tutti/exchange/dlpack.h>
#include <tutti/exchange/print.h>

#include <string>
#include <vector>

using namespace tutti;

namespace {

std::vector<Array> arrays;  // by handle
std::string text;           // of the last answer

int keep(const Array& array) {
  arrays.push_back(array);
  return static_cast<int>(arrays.size()) - 1;
}

}  // namespace

extern "C" {

int tutti_arange(int dtype, int rows, int columns) {
  return keep(Array::arange(rows * columns, DType::i64, cpu()).cast(kAllDTypes[dtype]).reshape({rows, columns}));
}
int tutti_transpose(int handle) { return keep(arrays.at(static_cast<std::size_t>(handle)).transpose()); }
void tutti_fill(int handle, double value) {
  arrays.at(static_cast<std::size_t>(handle)).fill(value);
  compute_stream(cpu()).synchronize();
}
void tutti_release(int handle) { arrays.at(static_cast<std::size_t>(handle)) = Array(); }

const char* tutti_text(int handle) {
  text = to_string(arrays.at(static_cast<std::size_t>(handle)));
  return text.c_str();
}

void* tutti_export(int handle, bool versioned, bool read_only) {
  const Array& array = arrays.at(static_cast<std::size_t>(handle));
  return versioned ? static_cast<void*>(to_dlpack(array, read_only)) : to_dlpack_unversioned(array);
}

/// A handle; -1 when refused, with the reason as the text.
int tutti_import(void* tensor, bool versioned, int read_only) {
  try {
    const DLPackImport options{.read_only = static_cast<ReadOnlyMemory>(read_only)};
    return keep(versioned ? from_dlpack(static_cast<dlpack::ManagedTensorVersioned*>(tensor), options)
                          : from_dlpack(static_cast<dlpack::ManagedTensor*>(tensor), options));
  } catch (const std::exception& error) {
    text = error.what();
    return -1;
  }
}
const char* tutti_error() { return text.c_str(); }
}
