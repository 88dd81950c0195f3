// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/engine/backward_run.h>

#include <tutti/autodiff/engine/runs_on_null.h>
#include <tutti/autodiff/operations/elementwise_operations.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/calls/gradient_of.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace tutti {

namespace {

std::uint64_t next_run() {
  static std::atomic<std::uint64_t> counter{0};  // runs of all threads differ
  return counter.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool runs_on_null(const Node& node) { return dynamic_cast<const RunsOnNull*>(&node) != nullptr; }

Tensor add_gradients(Tensor sum, const Tensor& gradient) {
  if (grad_enabled()) return sum + gradient;
  Array total = take_array(std::move(sum));
  add_to(total, gradient.array());
  return Tensor(std::move(total));
}

}  // namespace

BackwardRun::BackwardRun(CachedVector<Root> roots, const Targets& targets, Into into)
    : run_(next_run()), into_(into), roots_(std::move(roots)) {
  if (into == Into::boundary) boundary_.insert(targets.begin(), targets.end());
  for (const Root& root : roots_) traverse(root.node.get());
  // Discovery is in post-order: a node's inputs stand before it.
  for (const Node* target : targets)
    if (Visit* visit = visit_of(target)) visit->needed = visit->target = true;
  for (Visit& visit : visits_) {
    if (targets.empty()) visit.needed = true;
    for (std::size_t i = 0; i < visit.node->input_count() && !visit.needed; ++i)
      if (const Visit* input = visit_of(visit.node->input(i).get())) visit.needed = input->needed;
  }
  for (Visit& visit : visits_) {
    if (!visit.needed) continue;
    visit.hooked = visit.node->has_hooks() && !ends_at(visit);
    unknown_reads_ += (visit.node->reads_unknown() ? 1U : 0U) + (visit.hooked ? 1U : 0U);
    for (std::size_t i = 0; i < edges_of(visit); ++i)
      if (Visit* input = visit_of(visit.node->input(i).get()); input != nullptr && input->needed) ++input->expected;
  }
  for (const Root& root : roots_) ++visit_of(root.node.get())->expected;
  for (Visit& visit : visits_) visit.pending = visit.expected;
}

BackwardRun::~BackwardRun() {
  for (auto visit = visits_.rbegin(); visit != visits_.rend(); ++visit) visit->node->mark_ = visit->found;
}

// Depth first without recursion. Nodes are marked when first met, and listed when all their inputs are.
void BackwardRun::traverse(Node* root) {
  if (visit_of(root) != nullptr) return;
  struct Frame {
    Node* node;
    Node::Mark found;
    std::size_t next = 0;
  };
  constexpr std::uint32_t kOpen = ~std::uint32_t{0};
  CachedVector<Frame> stack;
  const auto open = [&](Node* node) {
    const bool ends = !boundary_.empty() && boundary_.contains(node);
    stack.push_back({node, std::exchange(node->mark_, {run_, kOpen}), ends ? node->input_count() : 0});
  };
  open(root);
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next < top.node->input_count()) {
      Node* input = top.node->input(top.next++).get();
      if (input != nullptr && input->mark_.run != run_) open(input);
      continue;
    }
    visits_.push_back({.node = top.node, .found = top.found, .gradient = {}});
    top.node->mark_ = {run_, static_cast<std::uint32_t>(visits_.size() - 1)};
    stack.pop_back();
  }
}

CachedVector<BackwardRun::Leaf> BackwardRun::leaves() const {
  CachedVector<Leaf> leaves;
  for (const Visit& visit : visits_)
    if (visit.needed && visit.node->is_leaf()) leaves.push_back({static_cast<LeafNode*>(visit.node), visit.expected});
  return leaves;
}

void BackwardRun::check_saved() const {
  for (const Visit& visit : visits_)
    if (visit.needed && !ends_at(visit) && visit.node->released())
      raise<AutodiffError>(
          "[backward] what {} saved was released by an earlier backward, also if that one failed: pass retain_graph to "
          "it",
          visit.node->title());
}

namespace {

bool is_sparse_leaf(const Node* node) {
  return node != nullptr && node->is_leaf() && static_cast<const LeafNode*>(node)->slot.sparse;
}

[[noreturn]] void refuse_dense(const LeafNode& leaf, const std::string& dense, const std::string& sparse) {
  const auto& attachment = leaf.slot.attachment;
  raise<AutodiffError>(
      "[backward] {} on {} has sparse gradients{}, but {} gives it a dense one: mark it dense with "
      "set_sparse_grad(false)",
      attachment ? fmt::format("parameter \"{}\"", attachment->name) : "a parameter", to_string(leaf.device),
      sparse.empty() ? "" : fmt::format(" (here from {})", sparse), dense);
}

}  // namespace

std::string BackwardRun::source_of_rows(const Node* leaf) const {
  for (const Visit& visit : visits_)
    if (visit.node->gives_rows() && visit.node->input(0).get() == leaf) return visit.node->title();
  return {};
}

void BackwardRun::check_sparse() const {
  const auto sparse = [](const Visit& visit) { return is_sparse_leaf(visit.node); };
  if (std::ranges::none_of(visits_, sparse)) return;
  for (const Root& root : roots_)
    if (is_sparse_leaf(root.node.get())) refuse_dense(static_cast<LeafNode&>(*root.node), "being the root", {});
  for (const Visit& visit : visits_) {
    if (visit.node->gives_rows()) continue;
    for (std::size_t i = 0; i < visit.node->input_count(); ++i)
      if (const Node* input = visit.node->input(i).get(); is_sparse_leaf(input))
        refuse_dense(static_cast<const LeafNode&>(*input), visit.node->title(), source_of_rows(input));
  }
}

bool BackwardRun::wants_rows(const Node* node) const { return into_ == Into::slots && is_sparse_leaf(node); }

void BackwardRun::add_rows(const Node* leaf, SparseGradient rows) { visit_of(leaf)->rows.push_back(std::move(rows)); }

std::vector<SparseGradient> BackwardRun::take_rows(const Node& leaf) { return std::move(visit_of(&leaf)->rows); }

const Node* BackwardRun::stray_leaf() const {
  for (const Visit& visit : visits_)
    if (visit.node->is_leaf() && !visit.target) return visit.node;
  return nullptr;
}

void BackwardRun::run_hooks(Visit& visit) {
  if (!visit.hooked) return;
  if (visit.gradient.defined()) visit.gradient = visit.node->hooked(std::move(visit.gradient));
  --unknown_reads_;
}

Tensor BackwardRun::take_sum(const Node* node) {
  Visit* const visit = visit_of(node);
  if (visit == nullptr) return {};
  visit->next_is_alone = true;
  Tensor sum = std::exchange(visit->gradient, Tensor());
  return !sum.defined() || visit->is_alone ? sum : Tensor(sum.array().copy());
}

void BackwardRun::contribute(Visit& visit, Tensor gradient, const Complete& complete) {
  if (!visit.gradient.defined()) visit.is_alone = visit.next_is_alone;
  visit.next_is_alone = false;
  if (gradient.defined())
    visit.gradient =
        visit.gradient.defined() ? add_gradients(std::move(visit.gradient), gradient) : std::move(gradient);
  if (--visit.pending > 0) return;
  run_hooks(visit);
  if (visit.node->is_leaf()) {
    // Not by way of the heap: leaves are older than all operations, and would be final only after everything else.
    complete(*visit.node, std::move(visit.gradient));
    return;
  }
  ready_.emplace_back(visit.node->sequence(), visit.node->mark_.visit);
  std::ranges::push_heap(ready_);
}

void BackwardRun::execute(const Complete& complete, bool release_saved) {
  for (Root& root : roots_) contribute(*visit_of(root.node.get()), std::move(root.gradient), complete);
  while (!ready_.empty()) {
    std::ranges::pop_heap(ready_);
    Visit& visit = visits_[ready_.back().second];
    ready_.pop_back();
    if (visit.target) complete(*visit.node, visit.gradient);
    if (!ends_at(visit)) run_node(visit, release_saved, complete);
  }
}

// A node with several contributions has no use for it: only their sum ends there.
Array BackwardRun::destination_of(const Node* node) {
  if (into_ != Into::slots) return {};
  CachedVector<const Node*> views;  // the last made first
  const auto is_open = [&] {
    const Visit* visit = visit_of(node);
    return visit != nullptr && visit->expected == 1 && !visit->hooked;
  };
  for (; is_open() && node->is_view(); node = node->input(0).get()) views.push_back(node);
  if (!is_open() || !node->is_leaf()) return {};
  const GradientSlot& slot = static_cast<const LeafNode*>(node)->slot;
  Array place = slot.state == GradientState::undefined ? slot.destination : Array();
  for (auto view = views.rbegin(); place.defined() && view != views.rend(); ++view) place = (*view)->view(place);
  return place;
}

void BackwardRun::run_node(Visit& visit, bool release_saved, const Complete& complete) {
  constexpr std::size_t kInline = 8;
  const detail::GradientScope scope(visit.node->called_);
  const std::size_t count = visit.node->input_count();
  Tensor inline_gradients[kInline];
  bool inline_wanted[kInline] = {};
  CachedVector<Tensor> more_gradients(count > kInline ? count : 0);
  const std::unique_ptr<bool[]> more_wanted(count > kInline ? new bool[count]{} : nullptr);
  const std::span<Tensor> gradients(count > kInline ? more_gradients.data() : inline_gradients, count);
  const std::span<bool> wanted(count > kInline ? more_wanted.get() : inline_wanted, count);
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Visit* input = visit_of(visit.node->input(i).get());
    any |= wanted[i] = input != nullptr && input->needed;
  }
  if (any && (visit.gradient.defined() || runs_on_null(*visit.node))) {
    InputGradients sink(*visit.node, *this, gradients, wanted);
    const Tensor watched = detects_anomalies() ? visit.gradient : Tensor();
    visit.node->backward(std::exchange(visit.gradient, Tensor()), sink);
    if (watched.defined()) detail::inspect_gradients(*visit.node, watched, gradients);
  }
  if (release_saved) visit.node->release_saved();
  unknown_reads_ -= visit.node->reads_unknown() ? 1 : 0;
  for (std::size_t i = 0; i < count; ++i)
    if (wanted[i]) contribute(*visit_of(visit.node->input(i).get()), std::move(gradients[i]), complete);
}

}  // namespace tutti
