// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/autocast.h>

#include <tutti/autodiff/checkpoint.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/memory/thread_cache.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

namespace tutti {

namespace {

constinit thread_local Autocast* innermost_autocast = nullptr;

// docs/dtypes.md has these lists too.
constexpr std::string_view kNarrow[] = {
    "matmul",           "addmm",
    "tensordot",        "linear",
    "conv1d",           "conv2d",
    "conv3d",           "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d",
    "einsum",           "scaled_dot_product_attention",
};
constexpr std::string_view kWide[] = {
    // functions with a wide range, or steep ones
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "pow",
    "logaddexp",
    "tan",
    "asin",
    "acos",
    "sinh",
    "cosh",
    "erfinv",
    "reciprocal",
    "rsqrt",
    "softplus",
    "log_sigmoid",
    "mish",
    // sums over many elements
    "sum",
    "mean",
    "prod",
    "cumsum",
    "cumprod",
    "var",
    "stddev",
    "norm",
    "logsumexp",
    "logcumsumexp",
    "softmax",
    "softmin",
    "log_softmax",
    // normalisation and losses
    "layer_norm",
    "rms_norm",
    "group_norm",
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "ctc_loss",
};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

/// Values of leaves in another type, while their leaf lives and keeps its value. Each use of one is recorded by itself,
/// so that what uses contribute to the leaf's gradient is added in the leaf's type, as it is where checkpoints repeat
/// the cast.
class CastLeaves {
 public:
  Tensor find_or_cast(const Tensor& leaf, DType dtype) {
    const auto& storage = leaf.array().storage();
    const std::uint32_t version = storage->version();
    if (!entries_.contains(gradient_node(leaf).get())) drop_expired();
    Entry& entry = entries_[gradient_node(leaf).get()];
    if (entry.leaf.lock() != gradient_node(leaf) || entry.storage.lock() != storage || entry.version != version)
      entry = {gradient_node(leaf), storage, version, cast(leaf.detach(), dtype).array()};
    return record("cast", entry.value, {&leaf, 1}, [&] {
      return [from = leaf.dtype()](const auto&, const Tensor& dy, InputGradients& gradients) {
        gradients.set(0, cast(dy, from));
      };
    });
  }

 private:
  struct Entry {
    std::weak_ptr<Node> leaf;
    std::weak_ptr<Storage> storage;
    std::uint32_t version = 0;
    Array value;
  };

  // Not each time: a model has many leaves.
  void drop_expired() {
    if (entries_.size() < enough_) return;
    std::erase_if(entries_, [](const auto& item) { return item.second.leaf.expired(); });
    enough_ = 2 * entries_.size() + 1;
  }

  using Entries = std::unordered_map<const Node*, Entry, std::hash<const Node*>, std::equal_to<>,
                                     ThreadCacheAllocator<std::pair<const Node* const, Entry>>>;
  Entries entries_;
  std::size_t enough_ = 1;
};

Autocast::Autocast(DType narrow) : narrow_(narrow), outer_(nullptr) {
  if (narrow != DType::bf16 && narrow != DType::f16 && narrow != DType::f32)
    raise<DTypeError>("[autocast] operations run in bf16, f16 or f32, not in {}", to_string(narrow));
  outer_ = std::exchange(innermost_autocast, this);
}

Autocast::~Autocast() { innermost_autocast = outer_; }

// A checkpoint's function casts its leaves itself, each time it runs.
Tensor Autocast::as_narrow(const Tensor& x) {
  if (!x.is_leaf() || !x.requires_grad() || !grad_enabled() || InputTrace::active()) return cast(x, narrow_);
  if (!cast_) cast_ = make_cached<CastLeaves>();
  return cast_->find_or_cast(x, narrow_);
}

DType autocast_dtype() noexcept { return innermost_autocast != nullptr ? innermost_autocast->narrow_ : DType::f32; }

Tensor autocast(std::string_view operation, const Tensor& x) {
  if (innermost_autocast == nullptr || innermost_autocast->narrow_ == DType::f32 || !x.defined() || x.is_weak_scalar())
    return x;
  const DType dtype = x.dtype();
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) return x;
  if (dtype != innermost_autocast->narrow_ && contains(kNarrow, operation)) return innermost_autocast->as_narrow(x);
  if (dtype != DType::f32 && contains(kWide, operation)) return cast(x, DType::f32);
  return x;
}

}  // namespace tutti
