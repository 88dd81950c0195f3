// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/nn/captured/capture_options.h>
#include <tutti/nn/captured/captured_call.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tutti {

/// Captures of a function that is called again and again, one for each sort of batch, and when a call is run as it is,
/// captured or replayed: the first batch of each shape runs eagerly, the second and third captured; only if both did
/// the same is the fourth replayed, and checked now and then. `Run` derives from CapturedCall. What is called is a
///
///   batch()          tensors of the call
///   outdated(run)    why no call can be the run's any more; empty: it can
///   misfit(run)      why this call is not the run's; empty: it is
///   difference(a, b) how two captures of it differ; empty: they do not
///   run()            results, as it is
///   capture()        std::unique_ptr<Run>, captured
///   replay(run)      results
template <class Run> class CaptureCache {
 public:
  /// Error for `check_every` below 0.
  CaptureCache(const CaptureWords& words, const CaptureOptions& options) : words_(words), options_(options) {
    check_options(words_, options_);
  }

  template <class Call> void drop_outdated(const Call& call) {
    std::erase_if(runs_, [&](const auto& run) {
      std::string why = call.outdated(*run);
      if (why.empty()) return false;
      report_.reason = std::move(why);
      return true;
    });
  }
  /// CaptureError for a literal in the batch, whose type is that of what it meets, which no capture knows.
  template <class Call> std::vector<Tensor> take(const Call& call) {
    Run::refuse_literals(words_, call.batch());
    if (Run* run = find(call)) {
      if (!run->confirmed || is_check_due(*run)) return confirm(call);
      ++report_.replayed;
      return call.replay(*run);
    }
    BatchForm form;
    for (const Tensor& tensor : call.batch()) form.emplace_back(tensor.shape(), tensor.dtype(), tensor.device());
    if (std::ranges::find(seen_, form) != seen_.end()) return capture(call);
    std::vector<Tensor> results = run_eagerly(call, "the first batch of these shapes");
    if (seen_.size() == kMostForms) seen_.erase(seen_.begin());
    seen_.push_back(std::move(form));
    return results;
  }
  template <class Call> std::vector<Tensor> run_eagerly(const Call& call, const char* reason) {
    report_.reason = reason;
    ++report_.eager;
    return call.run();
  }

  void invalidate(std::string reason) {
    runs_.clear();
    ++invalidations_;
    report_.reason = std::move(reason);
  }
  /// Has captures that were replayed so often checked when they are used next.
  void check_soon(std::int64_t replays) {
    for (const auto& run : runs_)
      if (run->replayed >= replays) run->check_after = run->replayed;
  }
  const CaptureOptions& options() const noexcept { return options_; }
  CaptureReport report() const {
    CaptureReport report = report_;
    for (const auto& run : runs_) {
      report.memory += run->memory_bytes();
      report.graphs += run->graphs();
      report.chained += run->chained_calls();
    }
    return report;
  }

 private:
  static constexpr std::size_t kMostForms = 1024;

  /// Tells batches apart before anything was captured.
  using BatchForm = std::vector<std::tuple<Shape, DType, Device>>;

  // The last used is first.
  template <class Call> Run* find(const Call& call) {
    std::string nearest;
    for (auto run = runs_.begin(); run != runs_.end(); ++run) {
      std::string why = call.misfit(**run);
      if (why.empty()) {
        std::rotate(runs_.begin(), run, run + 1);
        return runs_.front().get();
      }
      if (nearest.empty()) nearest = std::move(why);
    }
    if (!nearest.empty()) report_.reason = std::move(nearest);
    return nullptr;
  }

  template <class Call> std::vector<Tensor> capture(const Call& call) {
    ++report_.captured;
    std::unique_ptr<Run> run = call.capture();  // a call may invalidate
    runs_.insert(runs_.begin(), std::move(run));
    if (runs_.size() > std::max<std::size_t>(1, options_.most_captures)) runs_.pop_back();
    return runs_.front()->take_first_outputs();
  }

  bool is_check_due(const Run& run) const { return options_.check_every > 0 && run.replayed >= run.check_after; }

  // Captures once more, to see whether it does the same again.
  template <class Call> std::vector<Tensor> confirm(const Call& call) {
    auto before = std::move(runs_.front());
    runs_.erase(runs_.begin());
    const std::int64_t invalidations = invalidations_;
    std::vector<Tensor> results = capture(call);
    if (invalidations_ != invalidations) return results;  // the call did: this one is the first
    if (const std::string parted = call.difference(*before, *runs_.front()); !parted.empty()) {
      runs_.erase(runs_.begin());
      raise_unsteady(words_, before->confirmed ? before->replayed : 0, parted);
    }
    if (before->confirmed) {  // its graphs are made
      before->check_after = std::min(2 * std::exchange(before->replayed, 0), options_.check_every);
      runs_.front() = std::move(before);
    }
    runs_.front()->confirmed = true;
    report_.reason = "captured once more, to see that it does the same";
    return results;
  }

  CaptureWords words_;
  CaptureOptions options_;
  std::vector<BatchForm> seen_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::int64_t invalidations_ = 0;
  CaptureReport report_;
};

}  // namespace tutti
