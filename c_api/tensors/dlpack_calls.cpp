// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api.h>

#include <tutti/c_api/calls/handles.h>
#include <tutti/exchange/dlpack.h>

using namespace tutti;
using namespace tutti::c_api;

namespace {

/// A structure of somebody else's that is let go unless it is taken.
template <class Managed> class TakenOver {
 public:
  explicit TakenOver(Managed& managed) : managed_(&managed) {}
  TakenOver(const TakenOver&) = delete;
  TakenOver& operator=(const TakenOver&) = delete;
  ~TakenOver() {
    if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
  }
  Managed* take() noexcept { return std::exchange(managed_, nullptr); }

 private:
  Managed* managed_;
};

template <class Managed> tutti_status import_as(const char* function, void* given, tutti_tensor** result) {
  return guarded(function, [&] {
    if (result != nullptr) *result = nullptr;
    TakenOver<Managed> managed(required(static_cast<Managed*>(given), "managed"));
    tutti_tensor*& made = empty_result(result);
    give(made, Tensor(from_dlpack(managed.take())));
  });
}

}  // namespace

tutti_status tutti_tensor_from_dlpack(DLManagedTensor* managed, tutti_tensor** result) {
  return import_as<dlpack::ManagedTensor>("tutti_tensor_from_dlpack", managed, result);
}

tutti_status tutti_tensor_from_dlpack_versioned(DLManagedTensorVersioned* managed, tutti_tensor** result) {
  return import_as<dlpack::ManagedTensorVersioned>("tutti_tensor_from_dlpack_versioned", managed, result);
}

tutti_status tutti_tensor_to_dlpack(const tutti_tensor* tensor, DLManagedTensor** result) {
  return guarded("tutti_tensor_to_dlpack", [&] {
    DLManagedTensor*& made = empty_result(result);
    made = reinterpret_cast<DLManagedTensor*>(to_dlpack_unversioned(value_of(tensor, "tensor").array()));
  });
}

tutti_status tutti_tensor_to_dlpack_versioned(const tutti_tensor* tensor, DLManagedTensorVersioned** result) {
  return guarded("tutti_tensor_to_dlpack_versioned", [&] {
    DLManagedTensorVersioned*& made = empty_result(result);
    made = reinterpret_cast<DLManagedTensorVersioned*>(to_dlpack(value_of(tensor, "tensor").array()));
  });
}
