// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/libraries/convolution_library.h>

#include <tutti/backend/cuda/libraries/cudnn_check.h>
#include <tutti/backend/cuda/libraries/cudnn_plan.h>
#include <tutti/backend/cuda/runtime/cuda_graph.h>
#include <tutti/backend/raise.h>

#include <map>
#include <mutex>

namespace tutti {
namespace {

/// cuDNN's handle of one device, made when first used, and the plans that were made with it.
class CudnnConvolutions final : public ConvolutionLibrary {
 public:
  explicit CudnnConvolutions(Device device) : device_(device) {}
  ~CudnnConvolutions() override;
  CudnnConvolutions(const CudnnConvolutions&) = delete;
  CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;

  bool convolve(const ConvolutionCall&, CudaStream&, MemoryPool&) override;

 private:
  using Plan = std::shared_ptr<const CudnnPlan>;  // null: cuDNN cannot do it
  static constexpr std::size_t kMostRemembered = 1024;

  cudnnHandle_t handle(const CudnnLibrary&, std::string_view operation);
  Plan plan_for(const CudnnLibrary&, const CudnnPlan::Key&, const ConvolutionCall&, cudaStream_t);
  bool run(const CudnnLibrary&, const CudnnPlan&, const CudnnPlan::Key&, const ConvolutionCall&, cudaStream_t,
           MemoryPool&);

  Device device_;
  std::mutex mutex_;  // guards what follows, and every use of the handle: cuDNN takes one thread at a time
  CudnnOwned<cudnnHandle_t> handle_;
  std::map<CudnnPlan::Key, Plan> plans_;
};

CudnnConvolutions::~CudnnConvolutions() {
  plans_.clear();
  if (handle_ == nullptr) return;
  try {
    const cuda_runtime::CurrentDevice current(device_, "conv2d");
    const std::lock_guard lock(cuda_runtime::launch_or_allocate());
    handle_.reset();
  } catch (...) {  // the device is lost: its handle goes all the same
    handle_.reset();
  }
}

cudnnHandle_t CudnnConvolutions::handle(const CudnnLibrary& cudnn, std::string_view operation) {
  if (handle_ != nullptr) return handle_.get();
  cudnnHandle_t made = nullptr;
  {
    const std::lock_guard lock(cuda_runtime::launch_or_allocate());
    TUTTI_CUDNN(device_, operation, cudnn.cudnnCreate(&made));
  }
  handle_ = CudnnOwned<cudnnHandle_t>(made, {&cudnn});
  return made;
}

CudnnConvolutions::Plan CudnnConvolutions::plan_for(const CudnnLibrary& cudnn, const CudnnPlan::Key& key,
                                                    const ConvolutionCall& call, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  cudnnHandle_t const own = handle(cudnn, call.name);
  TUTTI_CUDNN(device_, call.name, cudnn.cudnnSetStream(own, stream));
  Plan plan = CudnnPlan::make(cudnn, own, call);
  if (plans_.size() >= kMostRemembered) plans_.clear();
  return plans_.emplace(key, std::move(plan)).first->second;
}

// An algorithm that was offered may still turn out not to do this: it is not tried again.
bool CudnnConvolutions::run(const CudnnLibrary& cudnn, const CudnnPlan& plan, const CudnnPlan::Key& key,
                            const ConvolutionCall& call, cudaStream_t stream, MemoryPool& pool) {
  const Storage workspace(device_, pool, plan.workspace());
  const std::lock_guard lock(mutex_);
  TUTTI_CUDNN(device_, call.name, cudnn.cudnnSetStream(handle_.get(), stream));
  const bool done = plan.run(handle_.get(), call, workspace.data()) == CUDNN_STATUS_SUCCESS;
  if (done) return true;
  if (GraphRecording::active(device_) != nullptr)
    raise<DeviceError>("[{}] {}: cuDNN does not let this be recorded", call.name, to_string(device_));
  plans_[key] = nullptr;
  return false;
}

bool CudnnConvolutions::convolve(const ConvolutionCall& call, CudaStream& stream, MemoryPool& pool) {
  const CudnnLibrary* const cudnn = cudnn_library();
  if (cudnn == nullptr) return false;
  const std::optional<CudnnPlan::Key> key = CudnnPlan::key(call);
  if (!key) return false;
  bool done = false;
  stream.launch(call.name, [&](cudaStream_t queue) {
    if (const Plan plan = plan_for(*cudnn, *key, call, queue); plan != nullptr)
      done = run(*cudnn, *plan, *key, call, queue, pool);
  });
  return done;
}

}  // namespace

std::unique_ptr<ConvolutionLibrary> make_convolution_library(Device device) {
  return std::make_unique<CudnnConvolutions>(device);
}

}  // namespace tutti
