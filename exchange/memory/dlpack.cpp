// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/dlpack.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/process/environment.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/exchange/memory/foreign_types.h>

#include <cstddef>
#include <limits>
#include <string_view>

namespace tutti {
namespace {

using dlpack::DeviceType;
using dlpack::ManagedTensor;
using dlpack::ManagedTensorVersioned;

// The ABI that all libraries share, on 64-bit machines.
static_assert(sizeof(dlpack::View) == 48 && offsetof(dlpack::View, type) == 20);
static_assert(offsetof(ManagedTensor, context) == 48 && sizeof(ManagedTensor) == 64);
static_assert(offsetof(ManagedTensorVersioned, flags) == 24 && offsetof(ManagedTensorVersioned, view) == 32);

constexpr std::int32_t kMostAxes = 1024;

struct KnownDevice {
  DeviceType type;
  DeviceKind kind;
  bool has_index;  ///< of ours; memory of the host belongs to any CPU device
};

/// The first of a kind is the one that we export.
constexpr KnownDevice kKnownDevices[] = {
    {DeviceType::cpu, DeviceKind::cpu, false},
    {DeviceType::cuda, DeviceKind::cuda, true},
    {DeviceType::cuda_host, DeviceKind::cpu, false},
    {DeviceType::cuda_managed, DeviceKind::cuda, true},
};

// DLPack's index is a GPU's.
void refuse_shared_gpus(DeviceKind kind) {
  const auto shared = environment_text("TUTTI_CUDA_DEVICES_PER_GPU");
  if (kind == DeviceKind::cuda && shared && *shared != "1")
    raise<DeviceError>(
        "[dlpack] with several devices on a GPU (TUTTI_CUDA_DEVICES_PER_GPU={}) arrays of CUDA devices "
        "are not exchanged: their indices are not those of GPUs",
        *shared);
}

Device device_of(const dlpack::DeviceOf& from, Device cpu_device) {
  if (cpu_device.kind != DeviceKind::cpu)
    raise<DeviceError>("[from_dlpack] {} is no CPU device", to_string(cpu_device));
  for (const KnownDevice& known : kKnownDevices) {
    if (known.type != from.type) continue;
    if (!known.has_index) return cpu_device;
    if (from.index < 0 || from.index > std::numeric_limits<std::uint16_t>::max()) break;
    refuse_shared_gpus(known.kind);
    return {known.kind, static_cast<std::uint16_t>(from.index)};
  }
  raise<DeviceError>("[from_dlpack] no device of ours is of DLPack's type {}, index {}",
                     static_cast<std::int32_t>(from.type), from.index);
}

dlpack::DeviceOf device_for(Device device) {
  refuse_shared_gpus(device.kind);
  for (const KnownDevice& known : kKnownDevices)
    if (known.kind == device.kind) return {known.type, known.has_index ? device.index : 0};
  raise<DeviceError>("[to_dlpack] DLPack has no type of device for {}", to_string(device));
}

DType dtype_of_view(const dlpack::View& view) {
  if (view.type.lanes != 1) raise<DataError>("[from_dlpack] elements of {} lanes, not 1", view.type.lanes);
  const auto dtype = dtype_of_dlpack(view.type.code, view.type.bits);
  if (!dtype)
    raise<DTypeError>("[from_dlpack] elements of code {} and {} bits are of no type of ours", view.type.code,
                      view.type.bits);
  return *dtype;
}

Array array_over(const dlpack::View& view, std::shared_ptr<const void> owner, Device cpu_device) {
  const Device device = device_of(view.device, cpu_device);
  const DType dtype = dtype_of_view(view);
  if (view.rank < 0 || view.rank > kMostAxes || (view.rank > 0 && view.shape == nullptr))
    raise<DataError>("[from_dlpack] {} axes with{} a shape", view.rank, view.shape == nullptr ? "out" : "");
  const auto rank = static_cast<std::size_t>(view.rank);
  const Shape shape(std::span<const std::int64_t>(view.shape, rank));
  const Strides strides =
      view.strides == nullptr ? contiguous_strides(shape) : Strides(std::span<const std::int64_t>(view.strides, rank));
  if (view.data == nullptr && checked_element_count("from_dlpack", shape) > 0)
    raise<DataError>("[from_dlpack] no memory for shape {}", to_string(shape));
  void* const data = view.data == nullptr ? nullptr : static_cast<std::byte*>(view.data) + view.byte_offset;
  return Array::over(data, std::move(owner), dtype, shape, strides, device);
}

template <class Managed> std::shared_ptr<Managed> owned(Managed* tensor) {
  if (tensor == nullptr) raise<DataError>("[from_dlpack] no tensor");
  return {tensor, [](Managed* managed) {
            if (managed->deleter != nullptr) managed->deleter(managed);
          }};
}

/// What an exported tensor holds: the array, and the lists that the view points to.
template <class Managed> struct Export {
  explicit Export(const Array& array) : array(array), shape(array.shape()), strides(array.strides()) {
    managed.context = this;
    managed.deleter = [](Managed* tensor) { delete static_cast<Export*>(tensor->context); };
    const auto bits = static_cast<std::uint8_t>(8 * size_of(array.dtype()));
    managed.view = {array.raw_data(),
                    device_for(array.device()),
                    static_cast<std::int32_t>(shape.size()),
                    {foreign_type(array.dtype()).dlpack, bits, 1},
                    shape.data(),
                    strides.data(),
                    0};
  }

  Array array;
  Shape shape;
  Strides strides;
  Managed managed{};
};

template <class Managed> Managed* exported(const Array& array) {
  checks::require_defined("to_dlpack", array);
  auto result = std::make_unique<Export<Managed>>(array);
  compute_stream(array.device()).synchronize();
  return &result.release()->managed;
}

}  // namespace

Array from_dlpack(ManagedTensorVersioned* tensor, const DLPackImport& options) {
  const std::shared_ptr<ManagedTensorVersioned> owner = owned(tensor);
  // Version, context and deleter stand where they are in every version; the rest may not.
  if (tensor->version.major != dlpack::kVersion.major)
    raise<DataError>("[from_dlpack] version {}.{} of DLPack, this program knows {}.x", tensor->version.major,
                     tensor->version.minor, dlpack::kVersion.major);
  const bool read_only = (tensor->flags & dlpack::kReadOnly) != 0;
  if (read_only && options.read_only == ReadOnlyMemory::refuse) raise("[from_dlpack] the memory is read-only");
  const Array array = array_over(tensor->view, owner, options.cpu_device);
  if (!read_only || options.read_only == ReadOnlyMemory::share) return array;
  return array.copy();
}

Array from_dlpack(ManagedTensor* tensor, const DLPackImport& options) {
  const std::shared_ptr<ManagedTensor> owner = owned(tensor);
  return array_over(tensor->view, owner, options.cpu_device);
}

ManagedTensorVersioned* to_dlpack(const Array& array, bool read_only) {
  auto* const tensor = exported<ManagedTensorVersioned>(array);
  tensor->version = dlpack::kVersion;
  tensor->flags = read_only ? dlpack::kReadOnly : 0;
  return tensor;
}

ManagedTensor* to_dlpack_unversioned(const Array& array) { return exported<ManagedTensor>(array); }

}  // namespace tutti
