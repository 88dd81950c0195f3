// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/convolution_library.h>

#include <tutti/backend/cuda/cudnn_check.h>
#include <tutti/backend/cuda/cudnn_plan.h>

#include <map>
#include <mutex>

namespace tutti {
namespace {

/// cuDNN's handle of one device, made when first used, and the plans that were made with it.
class CudnnConvolutions final : public ConvolutionLibrary {
 public:
  CudnnConvolutions(CudaStream& stream, MemoryPool& pool) : stream_(stream), pool_(pool) {}
  ~CudnnConvolutions() override;
  CudnnConvolutions(const CudnnConvolutions&) = delete;
  CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;

  bool convolve(const ConvolutionCall&) override;

 private:
  using Plan = std::shared_ptr<const CudnnPlan>;  // null: cuDNN cannot do it
  static constexpr std::size_t kMostRemembered = 1024;

  cudnnHandle_t handle(const CudnnLibrary&, std::string_view operation, cudaStream_t);
  Plan plan_for(const CudnnLibrary&, const CudnnPlan::Key&, const ConvolutionCall&, cudaStream_t);
  bool run(const CudnnPlan&, const CudnnPlan::Key&, const ConvolutionCall&);

  CudaStream& stream_;
  MemoryPool& pool_;
  std::mutex mutex_;  // guards what follows, and every use of the handle: cuDNN takes one thread at a time
  CudnnOwned<cudnnHandle_t> handle_;
  std::map<CudnnPlan::Key, Plan> plans_;
};

CudnnConvolutions::~CudnnConvolutions() {
  plans_.clear();
  if (handle_ == nullptr) return;
  try {
    const cuda_runtime::CurrentDevice current(stream_.device(), "conv2d");
    const std::lock_guard lock(cuda_runtime::launch_or_allocate());
    handle_.reset();
  } catch (...) {  // the device is lost: its handle goes all the same
    handle_.reset();
  }
}

cudnnHandle_t CudnnConvolutions::handle(const CudnnLibrary& cudnn, std::string_view operation, cudaStream_t stream) {
  if (handle_ != nullptr) return handle_.get();
  cudnnHandle_t made = nullptr;
  {
    const std::lock_guard lock(cuda_runtime::launch_or_allocate());
    TUTTI_CUDNN(stream_.device(), operation, cudnn.cudnnCreate(&made));
  }
  CudnnOwned<cudnnHandle_t> owned(made, {&cudnn});
  TUTTI_CUDNN(stream_.device(), operation, cudnn.cudnnSetStream(made, stream));
  handle_ = std::move(owned);
  return made;
}

CudnnConvolutions::Plan CudnnConvolutions::plan_for(const CudnnLibrary& cudnn, const CudnnPlan::Key& key,
                                                    const ConvolutionCall& call, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  Plan plan = CudnnPlan::make(cudnn, handle(cudnn, call.name, stream), call);
  if (plans_.size() >= kMostRemembered) plans_.clear();
  return plans_.emplace(key, std::move(plan)).first->second;
}

// An algorithm that was offered may still turn out not to do this: it is not tried again.
bool CudnnConvolutions::run(const CudnnPlan& plan, const CudnnPlan::Key& key, const ConvolutionCall& call) {
  const Storage workspace(stream_.device(), pool_, plan.workspace());
  const std::lock_guard lock(mutex_);
  const bool done = plan.run(handle_.get(), call, workspace.data()) == CUDNN_STATUS_SUCCESS;
  if (!done) plans_[key] = nullptr;
  return done;
}

bool CudnnConvolutions::convolve(const ConvolutionCall& call) {
  const CudnnLibrary* const cudnn = cudnn_library();
  if (cudnn == nullptr) return false;
  const std::optional<CudnnPlan::Key> key = CudnnPlan::key(call);
  if (!key) return false;
  bool done = false;
  stream_.launch(call.name, [&](cudaStream_t stream) {
    if (const Plan plan = plan_for(*cudnn, *key, call, stream); plan != nullptr) done = run(*plan, *key, call);
  });
  return done;
}

}  // namespace

std::unique_ptr<ConvolutionLibrary> make_convolution_library(CudaStream& stream, MemoryPool& pool) {
  return std::make_unique<CudnnConvolutions>(stream, pool);
}

}  // namespace tutti
