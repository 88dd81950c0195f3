// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <cstdint>

/// Arrays of other libraries, and ours for them, over the same memory: the structures of DLPack's C interface, version
/// 1.x (https://dmlc.github.io/dlpack), under names of our own, so that a program may include dlpack.h too and cast.
namespace tutti::dlpack {

enum class DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };

struct DeviceOf {
  DeviceType type;
  std::int32_t index;
};

struct ElementType {
  std::uint8_t code;  ///< a DLPackCode
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct View {  ///< DLTensor
  void* data;
  DeviceOf device;
  std::int32_t rank;
  ElementType type;
  std::int64_t* shape;
  std::int64_t* strides;  ///< strides in elements; null: row-major
  std::uint64_t byte_offset;
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};
inline constexpr Version kVersion{1, 0};

inline constexpr std::uint64_t kReadOnly = 1;  ///< flags of ManagedTensorVersioned
inline constexpr std::uint64_t kIsCopied = 2;

struct ManagedTensor {  ///< DLManagedTensor: what a capsule named "dltensor" holds
  View view;
  void* context;
  void (*deleter)(ManagedTensor*);
};

struct ManagedTensorVersioned {  ///< DLManagedTensorVersioned: what a capsule named "dltensor_versioned" holds
  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned*);
  std::uint64_t flags;
  View view;
};

}  // namespace tutti::dlpack

namespace tutti {

enum class ReadOnlyMemory {
  copy,    ///< the array is a copy, which may be written to
  refuse,  ///< an error
  share    ///< the caller promises not to write to the array
};

struct DLPackImport {
  Device cpu_device = cpu();  ///< our CPU device for memory of the host
  ReadOnlyMemory read_only = ReadOnlyMemory::copy;
};

/// An array over the tensor's memory, without a copy; whatever its producer queued on it must be done. Owns the tensor
/// from now on, also when it throws: the deleter is called exactly once, on any thread, when the last array and all
/// queued work have gone. Throws DataError for another major version, vector types (lanes) and broken fields,
/// DTypeError for types that no Array has, DeviceError for other kinds of device, ShapeError for negative strides.
Array from_dlpack(dlpack::ManagedTensorVersioned*, const DLPackImport& = {});
Array from_dlpack(dlpack::ManagedTensor*, const DLPackImport& = {});

/// The array's memory for somebody else, who must call the deleter once, on any thread; until then it keeps the storage
/// alive. Waits for the compute stream. Throws Error for an undefined array, DeviceError for kinds of device that
/// DLPack has no name for. `read_only` asks the consumer not to write.
dlpack::ManagedTensorVersioned* to_dlpack(const Array&, bool read_only = false);
/// The array's memory for somebody else, as to_dlpack gives it, in the structure from before version 1.0, which cannot
/// say that memory is read-only.
dlpack::ManagedTensor* to_dlpack_unversioned(const Array&);

}  // namespace tutti
