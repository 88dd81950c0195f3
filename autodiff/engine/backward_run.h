// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/node.h>
#include <tutti/backend/memory/thread_cache.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tutti {

/// One traversal of a graph from its roots: counts each node's incoming gradients, then runs the nodes whose gradients
/// are complete, newest first. Every counted edge counts down, also when its gradient is null; a node that gets null
/// gradients alone does nothing, unless it runs on null. Runs may nest on one thread, also over the same nodes.
class BackwardRun {
 public:
  struct Root {
    std::shared_ptr<Node> node;
    Tensor gradient;  ///< undefined: null
  };
  /// Only nodes on a path to one of these run; empty: all.
  using Targets = CachedVector<const Node*>;

  /// The place where the leaves' gradients end: in their slots, or with who asked for them (targets); boundary: as
  /// targets, and what lies beyond the targets is not visited.
  enum class Into : std::uint8_t { slots, targets, boundary };

  BackwardRun(CachedVector<Root> roots, const Targets& targets, Into);
  ~BackwardRun();
  BackwardRun(const BackwardRun&) = delete;
  BackwardRun& operator=(const BackwardRun&) = delete;

  struct Leaf {
    LeafNode* node;
    std::uint32_t contributions;
  };
  CachedVector<Leaf> leaves() const;  ///< leaves that will receive a gradient, in order of discovery

  /// Throws AutodiffError naming the first operation whose saved values were released by an earlier run.
  void check_saved() const;

  /// Throws AutodiffError if a leaf with sparse gradients would get a dense one, naming both and the operations.
  void check_sparse() const;

  using Complete = std::function<void(Node&, Tensor)>;
  /// Runs everything. `complete(node, gradient)` hears of each target and each leaf once: of a leaf the moment its last
  /// contribution is in, before any other node runs. An undefined gradient means that all were null.
  void execute(const Complete& complete, bool release_saved);

  /// A leaf that was found and is no target; null: none.
  const Node* stray_leaf() const;

  /// How many nodes and hooks that read what is not known are still to run.
  std::uint32_t unknown_reads() const noexcept { return unknown_reads_; }

  /// The memory where the gradient that flows into `node` along its only edge is to end; undefined: anywhere.
  Array destination_of(const Node* node);

  /// Hands over the sum that `node` has got so far, contiguous, and in memory that nothing else refers to but work that
  /// is queued; undefined: there is none. What it gets next has to be alone in its memory, too. References are not
  /// counted: queued work is gone sooner or later, and each run has to do the same.
  Tensor take_sum(const Node* node);

  // --- sparse gradients: they go to leaves only, and are summed later
  bool wants_rows(const Node* node) const;
  void add_rows(const Node* leaf, SparseGradient);
  std::vector<SparseGradient> take_rows(const Node& leaf);  ///< gradients of a leaf that is complete

 private:
  struct Visit {
    Node* node;
    Node::Mark found;           // restored at the end
    std::uint32_t pending = 0;  // contributions still to come
    std::uint32_t expected = 0;
    bool needed = false;
    bool target = false;
    bool hooked = false;
    bool next_is_alone = false;  // the next gradient has its memory to itself
    bool is_alone = false;       // the gradient has
    Tensor gradient;
    std::vector<SparseGradient> rows = {};
  };

  void traverse(Node*);
  Visit* visit_of(const Node* node) {
    return node != nullptr && node->mark_.run == run_ ? &visits_[node->mark_.visit] : nullptr;
  }
  bool ends_at(const Visit& visit) const { return into_ == Into::boundary && visit.target; }
  std::size_t edges_of(const Visit& visit) const { return ends_at(visit) ? 0 : visit.node->input_count(); }
  void contribute(Visit&, Tensor gradient, const Complete&);
  void run_hooks(Visit&);
  std::string source_of_rows(const Node* leaf) const;
  void run_node(Visit&, bool release_saved, const Complete&);

  std::uint64_t run_;
  Into into_;
  CachedVector<Root> roots_;
  std::unordered_set<const Node*> boundary_;
  CachedVector<Visit> visits_;
  std::uint32_t unknown_reads_ = 0;
  CachedVector<std::pair<std::uint64_t, std::uint32_t>> ready_;  // a heap of (sequence, visit)
};

}  // namespace tutti
