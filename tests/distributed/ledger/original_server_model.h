// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

namespace tutti::testing {

/// The counting rules of the server that inspired ours, so that tests can show what goes wrong under them: requirement
/// counts that grow with every registration, one queue per parameter without generations, and the release of every
/// waiting device as soon as nothing is queued.
class OriginalServerModel {
 public:
  explicit OriginalServerModel(std::size_t devices) : devices_(devices) {}

  void register_parameters(const std::vector<int>& parameters) {
    for (const int parameter : parameters) ++required_[parameter];
    ++registered_;
  }

  void submit(int parameter, int value) {
    queued_[parameter].push_back(value);
    if (registered_ != devices_) return;
    const auto required = required_;
    for (const auto& [id, count] : required) {
      const auto queue = queued_.find(id);
      if (queue == queued_.end() || queue->second.size() != count) continue;
      reduced.push_back(queue->second);
      queued_.erase(queue);
      required_.erase(id);
      try_release();
    }
  }

  void collective_sync(int device) {
    waiting_.insert(device);
    try_release();
  }

  bool waits(int device) const { return waiting_.contains(device); }

  std::vector<std::vector<int>> reduced;  ///< the values that were reduced together, in order

 private:
  void try_release() {
    if (queued_.empty()) {
      synced_ += waiting_.size();
      waiting_.clear();
    }
    if (synced_ == devices_) {
      registered_ = synced_ = 0;
      required_.clear();
    }
  }

  std::size_t devices_;
  std::map<int, std::vector<int>> queued_;
  std::map<int, std::size_t> required_;
  std::size_t registered_ = 0;
  std::size_t synced_ = 0;
  std::set<int> waiting_;
};

}  // namespace tutti::testing
