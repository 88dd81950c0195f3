// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/backend.h>
#include <tutti/backend/elementwise/step.h>
#include <tutti/backend/kernel.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti {

/// An array as a tape keeps it: its address, shape and strides, without a reference to its memory, and where what it
/// holds comes from.
struct TapeOperand {
  /// The address of memory from outside the capture, or the bits of a literal; of the capture's own, the number of the
  /// write, or input, that it holds, from 1 on; 0: none that counts.
  struct Source {
    static constexpr std::int64_t kLiteral = -1;  ///< stands where an offset would

    bool outside = false;
    std::uint64_t number = 0;
    std::int64_t offset = 0;  ///< distance of the first element from the memory's start, in elements
    bool operator==(const Source&) const = default;
  };

  Array array;  ///< undefined where the call had none
  Source source;
  bool operator==(const TapeOperand&) const;
};

/// Several, as kernels take them.
struct TapeOperands {
  std::vector<Array> arrays;
  std::vector<TapeOperand::Source> sources;
  bool operator==(const TapeOperands&) const;
};

/// One call of a backend, with its arguments.
class TapeCall {
 public:
  explicit TapeCall(std::string_view name) : name_(name) {}
  virtual ~TapeCall() = default;
  virtual void run(Backend&) const = 0;
  virtual bool equals(
      const TapeCall&) const = 0;  ///< the same call, of the same arguments, on what is in the same place
  /// True if it queues the same on the device each time it is run, and takes nothing from the host.
  virtual bool constant() const noexcept { return false; }
  /// Its operation and operands if it is a call of `Backend::elementwise`.
  virtual std::optional<ElementwiseStep> elementwise() const { return std::nullopt; }
  std::string_view name() const noexcept { return name_; }

 private:
  std::string_view name_;
};

/// Calls of a backend in the order in which they were made, to be made again: no checks, no shapes to work out, no
/// memory to find. Calls between two positions are a segment.
class Tape {
 public:
  std::size_t size() const noexcept { return calls_.size(); }
  const TapeCall& call(std::size_t i) const { return *calls_[i]; }
  void append(std::unique_ptr<TapeCall> call) {
    if (!call->constant()) varying_.push_back(calls_.size());
    calls_.push_back(std::move(call));
  }
  void run(Backend& backend, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) calls_[i]->run(backend);
  }
  /// Up to where the calls from `begin` on are constant, `end` at most.
  std::size_t constant_until(std::size_t begin, std::size_t end) const;
  /// Empty if the other makes the same calls; else says at which one they part.
  std::string difference(const Tape& other) const;

 private:
  std::vector<std::unique_ptr<TapeCall>> calls_;
  std::vector<std::size_t> varying_;  // positions of those that are not constant, ascending
};

/// A call of a kernel (backend/kernel.h); each argument is kept as a value that converts to it, in a tuple of these.
template <class Kernel, class Values> class KernelCall final : public TapeCall {
 public:
  KernelCall(std::string_view name, Values kept, bool constant)
      : TapeCall(name), kept_(std::move(kept)), constant_(constant) {}

  void run(Backend& backend) const override { call(backend, std::make_index_sequence<std::tuple_size_v<Values>>{}); }
  bool equals(const TapeCall& other) const override {
    const auto* same = dynamic_cast<const KernelCall*>(&other);
    return same != nullptr && kept_ == same->kept_;
  }
  bool constant() const noexcept override { return constant_; }
  std::optional<ElementwiseStep> elementwise() const override {
    if constexpr (std::is_same_v<Kernel, kernel::elementwise>)
      return ElementwiseStep{std::get<0>(kept_), std::get<1>(kept_).arrays, std::get<2>(kept_).array};
    return std::nullopt;
  }

 private:
  template <std::size_t... Place> void call(Backend& backend, std::index_sequence<Place...>) const {
    Kernel::run(backend, as_argument(std::get<Place>(kept_))...);
  }
  template <class T> static const T& as_argument(const T& kept) { return kept; }
  static const Array& as_argument(const TapeOperand& kept) { return kept.array; }
  static std::span<const Array> as_argument(const TapeOperands& kept) { return kept.arrays; }

  Values kept_;
  bool constant_;
};

}  // namespace tutti
