// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/c_api/calls/handles.h>

#include <algorithm>
#include <cstring>

using namespace tutti;
using namespace tutti::c_api;

namespace {

/// Throws unless so many bytes at `data` are exactly the elements.
void check_elements(const Shape& shape, DType dtype, const void* data, std::size_t bytes) {
  const auto count = static_cast<std::size_t>(checked_element_count("shape", shape));
  if (bytes % size_of(dtype) != 0 || bytes / size_of(dtype) != count)
    raise_message<ShapeError>(fmt::format("{} bytes are given for the {} elements of {} {}, of {} bytes each", bytes,
                                          count, to_string(dtype), to_string(shape), size_of(dtype)));
  if (bytes > 0) require(data, "data");
  const auto* const begin = static_cast<const unsigned char*>(data);
  if (dtype == DType::boolean && std::any_of(begin, begin + bytes, [](unsigned char byte) { return byte > 1; }))
    raise_message<DTypeError>("a bool is a byte of 0 or 1");
}

/// Memory of the caller's; its deleter is called once `armed`.
struct Borrowed {
  tutti_deleter deleter;
  void* context;
  bool armed = false;

  Borrowed(tutti_deleter taking_back, void* whose) : deleter(taking_back), context(whose) {}
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (armed && deleter != nullptr) deleter(context);
  }
};

}  // namespace

tutti_status tutti_tensor_create(const std::int64_t* shape, std::size_t rank, tutti_dtype dtype, const void* data,
                                 std::size_t bytes, const char* device, tutti_tensor** result) {
  return guarded("tutti_tensor_create", [&] {
    tutti_tensor*& made = empty_result(result);
    const Shape lengths = shape_of(shape, rank);
    const DType type = dtype_of_number(dtype);
    check_elements(lengths, type, data, bytes);
    const Array array = Array::empty(lengths, type, device_named(device));
    if (bytes > 0) backend_for(array.device()).copy_from_host(data, array);
    give(made, Tensor(array));
  });
}

tutti_status tutti_tensor_zeros(const std::int64_t* shape, std::size_t rank, tutti_dtype dtype, const char* device,
                                tutti_tensor** result) {
  return guarded("tutti_tensor_zeros", [&] {
    tutti_tensor*& made = empty_result(result);
    const Shape lengths = shape_of(shape, rank);
    const DType type = dtype_of_number(dtype);
    give(made, Tensor(Array::zeros(lengths, type, device_named(device))));
  });
}

tutti_status tutti_tensor_borrow(const std::int64_t* shape, std::size_t rank, tutti_dtype dtype, void* data,
                                 std::size_t bytes, const char* device, tutti_deleter deleter, void* context,
                                 tutti_tensor** result) {
  return guarded("tutti_tensor_borrow", [&] {
    tutti_tensor*& made = empty_result(result);
    const Shape lengths = shape_of(shape, rank);
    const DType type = dtype_of_number(dtype);
    check_elements(lengths, type, data, bytes);
    const Device place = device_named(device);
    if (place.kind != DeviceKind::cpu)
      raise<DeviceError>("{} cannot use memory of the host; make a copy with tutti_tensor_create", to_string(place));
    const auto owner = std::make_shared<Borrowed>(deleter, context);
    give(made, Tensor(Array::over(data, owner, type, lengths, contiguous_strides(lengths), place)));
    owner->armed = true;
  });
}

void tutti_tensor_free(tutti_tensor* tensor) { delete tensor; }

tutti_status tutti_tensor_shape(const tutti_tensor* tensor, std::int64_t* shape, std::size_t capacity,
                                std::size_t* rank) {
  return guarded("tutti_tensor_shape", [&] {
    const Shape& lengths = value_of(tensor, "tensor").shape();
    require(rank, "rank");
    if (capacity > 0) {
      require(shape, "shape");
      if (capacity < lengths.size())
        refuse(fmt::format("shape has room for {} lengths, of which the tensor has {}", capacity, lengths.size()));
      std::copy(lengths.begin(), lengths.end(), shape);
    }
    *rank = lengths.size();
  });
}

tutti_status tutti_tensor_dtype(const tutti_tensor* tensor, tutti_dtype* dtype) {
  return guarded("tutti_tensor_dtype", [&] {
    const Tensor& value = value_of(tensor, "tensor");
    required(dtype, "dtype") = number_of(value.dtype());
  });
}

tutti_status tutti_tensor_device(const tutti_tensor* tensor, char* device, std::size_t capacity) {
  return guarded("tutti_tensor_device", [&] {
    const std::string name = to_string(value_of(tensor, "tensor").device());
    require(device, "device");
    if (capacity <= name.size())
      refuse(fmt::format("device has room for {} characters; \"{}\" needs {}", capacity, name, name.size() + 1));
    std::memcpy(device, name.c_str(), name.size() + 1);
  });
}

tutti_status tutti_tensor_bytes(const tutti_tensor* tensor, std::size_t* bytes) {
  return guarded("tutti_tensor_bytes", [&] {
    const Tensor& value = value_of(tensor, "tensor");
    required(bytes, "bytes") = value.array().bytes();
  });
}

tutti_status tutti_tensor_read(const tutti_tensor* tensor, void* data, std::size_t bytes) {
  return guarded("tutti_tensor_read", [&] {
    const Array array = value_of(tensor, "tensor").array().contiguous();
    if (bytes != array.bytes())
      raise<ShapeError>("data has {} bytes, the {} elements of {} {} have {}", bytes, array.size(),
                        to_string(array.dtype()), to_string(array.shape()), array.bytes());
    if (bytes == 0) return;
    require(data, "data");
    backend_for(array.device()).copy_to_host(array, data);
  });
}

tutti_status tutti_tensor_item(const tutti_tensor* tensor, double* value) {
  return guarded("tutti_tensor_item", [&] {
    const Tensor& only = value_of(tensor, "tensor");
    required(value, "value") = only.item();
  });
}

tutti_status tutti_tensor_to(const tutti_tensor* tensor, const char* device, tutti_tensor** result) {
  return guarded("tutti_tensor_to", [&] {
    tutti_tensor*& made = empty_result(result);
    give(made, value_of(tensor, "tensor").to(device_named(device)));
  });
}
