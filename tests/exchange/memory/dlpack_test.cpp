// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/dlpack.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/exchange/memory/foreign_types.h>
#include <tutti/tests/exchange/python.h>

#include <doctest/doctest.h>

#include <functional>

using namespace tutti;
using namespace tutti::testing;
using dlpack::DeviceType;
using dlpack::ManagedTensor;
using dlpack::ManagedTensorVersioned;

namespace {

/// A tensor of somebody else's, who counts how often it is let go.
struct Foreign {
  std::vector<float> values = {0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape = {2, 3};
  std::vector<std::int64_t> strides = {3, 1};
  int deleted = 0;
  ManagedTensorVersioned versioned{{1, 1}, this, [](auto* t) { ++static_cast<Foreign*>(t->context)->deleted; }, 0, {}};
  ManagedTensor unversioned{{}, this, [](auto* t) { ++static_cast<Foreign*>(t->context)->deleted; }};

  Foreign() {
    versioned.view = {values.data(), {DeviceType::cpu, 0}, 2, {kDLPackFloat, 32, 1}, shape.data(), strides.data(), 0};
    unversioned.view = versioned.view;
  }
};

/// That an import fails and lets go once.
template <class E> void check_refused(const std::function<void(Foreign&)>& spoil, const DLPackImport& options = {}) {
  Foreign foreign;
  spoil(foreign);
  foreign.unversioned.view = foreign.versioned.view;
  CHECK_THROWS_AS(from_dlpack(&foreign.versioned, options), E);
  CHECK(foreign.deleted == 1);
}

/// A script that talks to tests/exchange/memory/dlpack_library.cpp.
const std::string kPrelude = R"(
import ctypes, gc, sys, weakref
lib, py = ctypes.CDLL(sys.argv[1]), ctypes.pythonapi
lib.tutti_export.restype, lib.tutti_export.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_bool, ctypes.c_bool]
lib.tutti_import.argtypes = [ctypes.c_void_p, ctypes.c_bool, ctypes.c_int]
lib.tutti_fill.argtypes = [ctypes.c_int, ctypes.c_double]
lib.tutti_text.restype = lib.tutti_error.restype = ctypes.c_char_p
py.PyCapsule_New.restype, py.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
py.PyCapsule_GetPointer.restype, py.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
py.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
NAMES = {True: b'dltensor_versioned', False: b'dltensor'}
USED = {True: b'used_dltensor_versioned', False: b'used_dltensor'}
class Exported:
  def __init__(self, handle, versioned=True, read_only=False): self.arguments = handle, versioned, read_only
  def __dlpack_device__(self): return 1, 0
  def __dlpack__(self, **ignored):
    return py.PyCapsule_New(lib.tutti_export(*self.arguments), NAMES[self.arguments[1]], None)
def imported(capsule, read_only=0):
  versioned = 'versioned' in repr(capsule)
  pointer = py.PyCapsule_GetPointer(capsule, NAMES[versioned])
  py.PyCapsule_SetName(capsule, USED[versioned])
  return lib.tutti_import(pointer, versioned, read_only)
def text(handle): return lib.tutti_text(handle).decode()
)";

}  // namespace

TEST_CASE("dlpack: an import shares the memory and lets go with the last array") {
  for (const bool versioned : {true, false}) {
    Foreign foreign;
    Array array = versioned ? from_dlpack(&foreign.versioned, {.cpu_device = cpu(3)})
                            : from_dlpack(&foreign.unversioned, {.cpu_device = cpu(3)});
    CHECK(array.raw_data() == reinterpret_cast<std::byte*>(foreign.values.data()));
    CHECK(array.device() == cpu(3));
    CHECK(array.to_vector<float>() == foreign.values);
    Array row = array.slice(0, 1, 2);
    array = Array();
    row.fill(9);
    compute_stream(cpu(3)).synchronize();
    CHECK(foreign.values == std::vector<float>{0, 1, 2, 9, 9, 9});
    CHECK(foreign.deleted == 0);
    row = Array();
    compute_stream(cpu(3)).synchronize();
    CHECK(foreign.deleted == 1);
  }
}

TEST_CASE("dlpack: strides, offsets, scalars and empty tensors") {
  Foreign turned;
  turned.shape = {3, 1};
  turned.strides = {1, 3};
  turned.versioned.view.byte_offset = 12;
  CHECK(from_dlpack(&turned.versioned).to_vector<float>() == std::vector<float>{3, 4, 5});
  Foreign repeated;
  repeated.strides = {0, 2};
  CHECK(from_dlpack(&repeated.versioned).to_vector<float>() == std::vector<float>{0, 2, 4, 0, 2, 4});
  Foreign compact;
  compact.versioned.view.strides = nullptr;
  CHECK(from_dlpack(&compact.versioned).is_contiguous());
  Foreign scalar;
  scalar.versioned.view = {
      &scalar.values[4], {DeviceType::cuda_host, 0}, 0, {kDLPackFloat, 32, 1}, nullptr, nullptr, 0};
  CHECK(from_dlpack(&scalar.versioned).item<float>() == 4);
  Foreign empty;
  empty.shape = {0, 3};
  empty.versioned.view.data = nullptr;
  CHECK(from_dlpack(&empty.versioned).to_vector<float>().empty());
  CHECK(empty.deleted == 1);
}

TEST_CASE("dlpack: read-only memory is copied, refused or shared, as asked") {
  Foreign copied;
  copied.versioned.flags = dlpack::kReadOnly;
  Array copy = from_dlpack(&copied.versioned);
  copy.fill(1);
  compute_stream(cpu()).synchronize();
  CHECK(copied.values[5] == 5);
  CHECK(copied.deleted == 1);
  check_refused<Error>([](Foreign& f) { f.versioned.flags = dlpack::kReadOnly; },
                       {.read_only = ReadOnlyMemory::refuse});
  Foreign shared;
  shared.versioned.flags = dlpack::kReadOnly;
  const Array same = from_dlpack(&shared.versioned, {.read_only = ReadOnlyMemory::share});
  CHECK(same.raw_data() == reinterpret_cast<std::byte*>(shared.values.data()));
  CHECK(shared.deleted == 0);
}

TEST_CASE("dlpack: what is refused is let go once") {
  check_refused<DataError>([](Foreign& f) { f.versioned.version.major = 2; });
  check_refused<DataError>([](Foreign& f) { f.versioned.view.type.lanes = 4; });
  check_refused<DTypeError>([](Foreign& f) { f.versioned.view.type = {5, 64, 1}; });
  check_refused<DTypeError>([](Foreign& f) { f.versioned.view.type.bits = 128; });
  check_refused<DeviceError>([](Foreign& f) { f.versioned.view.device.type = static_cast<DeviceType>(7); });
  check_refused<DeviceError>([](Foreign& f) { f.versioned.view.device = {DeviceType::cuda, -1}; });
  check_refused<DeviceError>([](Foreign& f) { f.versioned.view.device = {DeviceType::cuda, 9999}; });
  check_refused<DeviceError>([](Foreign&) {}, {.cpu_device = cuda()});
  check_refused<DataError>([](Foreign& f) { f.versioned.view.rank = -1; });
  check_refused<DataError>([](Foreign& f) { f.versioned.view.shape = nullptr; });
  check_refused<DataError>([](Foreign& f) { f.versioned.view.data = nullptr; });
  check_refused<ShapeError>([](Foreign& f) { f.shape[0] = -1; });
  check_refused<ShapeError>([](Foreign& f) { f.strides[0] = -3; });
  check_refused<ShapeError>([](Foreign& f) { f.shape = {1LL << 40, 1LL << 40}; });
  check_refused<Error>([](Foreign& f) { f.versioned.view.byte_offset = 1; });
  CHECK_THROWS_AS(from_dlpack(static_cast<ManagedTensor*>(nullptr)), DataError);
  Foreign without_deleter;
  without_deleter.versioned.deleter = nullptr;
  CHECK_NOTHROW(from_dlpack(&without_deleter.versioned));
}

TEST_CASE("dlpack: an export keeps the storage until its deleter is called") {
  Array array = Array::arange(6, DType::f32, cpu(4)).reshape({2, 3});
  const std::weak_ptr<Storage> storage = array.storage();
  auto* const tensor = to_dlpack(array.transpose(), true);
  array = Array();
  CHECK_FALSE(storage.expired());
  CHECK(tensor->version.major == 1);
  CHECK(tensor->flags == dlpack::kReadOnly);
  CHECK(tensor->view.device.type == DeviceType::cpu);
  CHECK(tensor->view.device.index == 0);
  CHECK(tensor->view.rank == 2);
  CHECK(tensor->view.shape[0] == 3);
  CHECK(tensor->view.strides[0] == 1);
  CHECK(static_cast<float*>(tensor->view.data)[5] == 5);
  const Array back = from_dlpack(tensor, {.read_only = ReadOnlyMemory::share});
  CHECK(back.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK_FALSE(storage.expired());
  CHECK_THROWS_AS(to_dlpack(Array()), Error);
}

TEST_CASE("dlpack: every type makes the way there and back") {
  for (const DType dtype : kAllDTypes) {
    const Array array = Array::arange(4, DType::i64, cpu()).cast(dtype);
    CHECK(from_dlpack(to_dlpack(array)).dtype() == dtype);
    const Array back = from_dlpack(to_dlpack_unversioned(array));
    CHECK(back.dtype() == dtype);
    CHECK(back.raw_data() == array.raw_data());
  }
}

#ifdef TUTTI_DLPACK_LIBRARY
TEST_CASE("dlpack: NumPy takes our arrays" * doctest::skip(!python_has("numpy"))) {
  run_python(kPrelude + R"(
import numpy as np
names = {'f32': 'f4', 'f64': 'f8', 'f16': 'f2', 'i32': 'i4', 'i64': 'i8', 'i8': 'i1', 'u8': 'u1', 'bool': '?'}
for i, name in enumerate(sys.argv[2].split()):
  if name not in names: continue
  for versioned in (True, False):
    handle = lib.tutti_arange(i, 2, 3)
    array = np.from_dlpack(Exported(lib.tutti_transpose(handle), versioned))
    want = np.arange(6).reshape(2, 3).T.astype(names[name])
    assert array.dtype == want.dtype and np.array_equal(array, want), (name, array)
    if versioned: assert array.flags.writeable
handle = lib.tutti_arange(0, 4, 4)
array = np.from_dlpack(Exported(handle))
array[1, 2] = -1
assert '-1.' in text(handle), text(handle)
lib.tutti_fill(handle, 5)
assert (array == 5).all()
lib.tutti_release(handle)
gc.collect()
assert (array == 5).all()
assert not np.from_dlpack(Exported(lib.tutti_arange(0, 1, 1), True, True)).flags.writeable
)",
             {TUTTI_DLPACK_LIBRARY, [] {
                std::string names;
                for (const DType dtype : kAllDTypes) names += std::string(to_string(dtype)) + " ";
                return names;
              }()});
}

TEST_CASE("dlpack: we take NumPy's arrays, and let go of them once" * doctest::skip(!python_has("numpy"))) {
  run_python(kPrelude + R"(
import numpy as np
for versions in (dict(max_version=(1, 0)), dict()):
  array = np.arange(12, dtype='i4').reshape(3, 4).copy()
  held = sys.getrefcount(array)
  handle = imported(array.T[::2].__dlpack__(**versions))
  assert sys.getrefcount(array) == held + 1
  assert text(handle) == '[[ 0  4  8]\n [ 2  6 10]] i32 [2, 3] on cpu:0', text(handle)
  lib.tutti_fill(handle, 7)
  assert array[0].tolist() == [7, 1, 7, 3], array
  lib.tutti_release(handle)
  assert sys.getrefcount(array) == held
array.flags.writeable = False
assert imported(array.__dlpack__(max_version=(1, 0)), 1) == -1 and b'read-only' in lib.tutti_error()
handle = imported(array.__dlpack__(max_version=(1, 0)))
lib.tutti_fill(handle, 8)
assert sys.getrefcount(array) == held
assert array[0].tolist() == [7, 1, 7, 3]
for odd in (np.zeros(2, 'c16'), np.zeros(2, 'u2'), np.zeros(4)[::-1]):
  before = sys.getrefcount(odd)
  assert imported(odd.__dlpack__(max_version=(1, 0))) == -1, odd
  assert sys.getrefcount(odd) == before
)",
             {TUTTI_DLPACK_LIBRARY});
}

TEST_CASE("dlpack: PyTorch gives and takes tensors" * doctest::skip(!python_has("torch"))) {
  run_python(kPrelude + R"(
import torch
from torch.utils import dlpack
handle = lib.tutti_arange(0, 2, 3)
tensor = dlpack.from_dlpack(Exported(lib.tutti_transpose(handle), False).__dlpack__())
assert torch.equal(tensor, torch.arange(6.).reshape(2, 3).T)
tensor[0, 0] = 9
assert '9.' in text(handle)
source = torch.arange(6.).reshape(2, 3)
handle = imported(dlpack.to_dlpack(source.T))
assert text(handle) == '[[0. 3.]\n [1. 4.]\n [2. 5.]] f32 [3, 2] on cpu:0', text(handle)
lib.tutti_fill(handle, 1)
assert bool((source == 1).all())
del source
gc.collect()
assert '1.' in text(handle)
lib.tutti_release(handle)
)",
             {TUTTI_DLPACK_LIBRARY});
}
#endif
