// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/capture/recording_calls.h>

#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/custom_kernel.h>
#include <tutti/backend/elementwise/formulas.h>
#include <tutti/backend/forwarding_backend.h>
#include <tutti/backend/kernel.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <array>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>

namespace tutti {
namespace {

/// Which random numbers a kernel draws: other ones in each replay.
class DrawnHere {
 public:
  /// `call` is the last draw's.
  DrawnHere(CapturedDraws& draws, RandomCall call) : draws_(draws), draw_(draws.last_draw()), call_(call) {
    call_.offset -= draws.last_first();
    place_ = draws.add_place(draw_);
  }
  RandomCall placed() const { return draws_.placed(call_, place_); }
  bool operator==(const DrawnHere& other) const {
    const auto parameters = [](const RandomCall& call) {
      return std::array{call.a, call.b, call.low_level, call.high_level, static_cast<double>(call.kind)};
    };
    return parameters(call_) == parameters(other.call_) && call_.offset == other.call_.offset &&
           draws_.same(draw_, other.draws_, other.draw_);
  }

 private:
  const CapturedDraws& draws_;
  CapturedDraws::Draw draw_;
  RandomCall call_;  // its offset without what was drawn before
  std::size_t place_;
};

class RandomEntry final : public TapeCall {
 public:
  RandomEntry(DrawnHere drawn, TapeOperand output, bool constant)
      : TapeCall("random"), drawn_(std::move(drawn)), output_(std::move(output)), constant_(constant) {}

  void run(Backend& backend) const override { backend.random(drawn_.placed(), output_.array); }
  bool constant() const noexcept override { return constant_; }
  bool equals(const TapeCall& other) const override {
    const auto* same = dynamic_cast<const RandomEntry*>(&other);
    return same != nullptr && output_ == same->output_ && drawn_ == same->drawn_;
  }

 private:
  DrawnHere drawn_;
  TapeOperand output_;
  bool constant_;
};

class DropoutEntry final : public TapeCall {
 public:
  struct Operands {
    TapeOperand input, output, kept;
    bool operator==(const Operands&) const = default;
  };
  DropoutEntry(DrawnHere drawn, const DropoutCall& call, Operands operands, bool constant)
      : TapeCall("dropout"),
        drawn_(std::move(drawn)),
        call_(call),
        operands_(std::move(operands)),
        constant_(constant) {}

  void run(Backend& backend) const override {
    DropoutCall call = call_;
    call.draw = drawn_.placed();
    backend.dropout(call, operands_.input.array, operands_.output.array, operands_.kept.array);
  }
  bool constant() const noexcept override { return constant_; }
  bool equals(const TapeCall& other) const override {
    const auto* same = dynamic_cast<const DropoutEntry*>(&other);
    return same != nullptr && operands_ == same->operands_ && drawn_ == same->drawn_ &&
           call_.keep == same->call_.keep && call_.factor == same->call_.factor;
  }

 private:
  DrawnHere drawn_;
  DropoutCall call_;
  Operands operands_;
  bool constant_;
};

/// Values from the host that are the same in every run, which the device keeps.
class HostCopy final : public TapeCall {
 public:
  HostCopy(const void* from, Array kept, TapeOperand to)
      : TapeCall("copy_from_host"), bytes_(to.array.bytes()), kept_(std::move(kept)), to_(std::move(to)) {
    std::memcpy(bytes_.data(), from, bytes_.size());
  }
  void run(Backend& backend) const override { backend.copy(kept_, to_.array); }
  bool constant() const noexcept override { return true; }
  bool equals(const TapeCall& other) const override {
    const auto* same = dynamic_cast<const HostCopy*>(&other);
    return same != nullptr && to_ == same->to_ && bytes_ == same->bytes_;
  }

 private:
  std::vector<std::byte> bytes_;  // to compare captures by
  Array kept_;                    // not in the capture's memory, which others use in a replay
  TapeOperand to_;
};

/// A call whose indices mean something to the user of the operation that makes it: it is told so of a replay, too.
class MeaningfulCall final : public TapeCall {
 public:
  MeaningfulCall(const IndexMeaning& meaning, std::unique_ptr<TapeCall> call)
      : TapeCall(call->name()), meaning_(meaning), call_(std::move(call)) {}
  void run(Backend& backend) const override {
    const IndexScope scope(meaning_);
    call_->run(backend);
  }
  bool constant() const noexcept override { return call_->constant(); }
  bool equals(const TapeCall& other) const override {
    const auto* same = dynamic_cast<const MeaningfulCall*>(&other);
    return same != nullptr && meaning_ == same->meaning_ && call_->equals(*same->call_);
  }

 private:
  IndexMeaning meaning_;
  std::unique_ptr<TapeCall> call_;
};

template <class Kernel, class... Others> inline constexpr bool kOneOf = (std::is_same_v<Kernel, Others> || ...);
/// Calls of libraries that are not known to queue all that they do, or that are bound to a stream: no part of a graph.
template <class Kernel> inline constexpr bool kByLibrary =
    kOneOf<Kernel, kernel::fourier, kernel::factorize, kernel::lu, kernel::solve_triangular>;

/// How a tape keeps an argument.
template <class T> T kept(Capture&, const T& value, bool) { return value; }
TapeOperand kept(Capture& capture, const Array& array, bool written) { return capture.operand(array, written); }
TapeOperands kept(Capture& capture, const std::span<const Array>& arrays, bool written) {
  TapeOperands operands;
  for (const Array& array : arrays) {
    TapeOperand one = capture.operand(array, written);
    operands.arrays.push_back(std::move(one.array));
    operands.sources.push_back(one.source);
  }
  return operands;
}

/// How it keeps all of them.
template <class... Parameters, class... Arguments>
auto kept_arguments(kernel::ParameterList<Parameters...>, Capture& capture, const Arguments&... arguments) {
  return std::tuple<decltype(kept(capture, arguments, false))...>{
      kept(capture, arguments, kernel::writes<Parameters> && !std::is_same_v<Parameters, kernel::InOut>)...};
}

class RecordingCalls final : public ForwardingBackend<RecordingCalls> {
 public:
  explicit RecordingCalls(Capture& capture)
      : ForwardingBackend(registered_backend(capture.device().kind)), capture_(capture) {}

  MemoryPool& pool(Device) override;
  void copy_from_host(const void*, const Array&) override;
  void copy_to_host(const Array&, void*) override;
  void copy_from_device(const Array&, const Array&) override;
  Array literal(Scalar, DType, Device) override;

  template <class Kernel, class... Arguments> void call(Kernel, const Arguments&... arguments) {
    record<Kernel>(Kernel::name, !kByLibrary<Kernel>, arguments...);
  }
  void call(kernel::elementwise, const ElementwiseCall& call, std::span<const Array> inputs, const Array& output) {
    record<kernel::elementwise>(elementwise::kNames[call.operation], true, call, inputs, output);
  }
  void call(kernel::scatter, Scatter kind, const Array& updates, std::size_t axis, const Array& index,
            const Array& output) {
    record<kernel::scatter>(kind == Scatter::add ? "scatter_add" : "scatter", true, kind, updates, axis, index, output);
  }
  void call(kernel::custom, const CustomKernel& kernel, std::span<const Array> inputs, std::span<const Array> outputs) {
    record<kernel::custom>(kernel.name(), kernel.in_graphs(), kernel, inputs, outputs);
  }
  void call(kernel::random, const RandomCall&, const Array& output);
  void call(kernel::dropout, const DropoutCall&, const Array& input, const Array& output, const Array& kept);
  // Its rule holds the learning rate and the number of the step.
  void call(kernel::optimizer_step, const OptimizerRule&, std::span<const RuleOperands>) {
    raise<CaptureError>("[capture] an optimizer steps within the step: call it after the step");
  }

 private:
  // `constant`: a graph may hold it.
  template <class Kernel, class... Arguments> void record(std::string_view name, bool constant, const Arguments&...);
  void require_own(std::string_view name, const Array&) const;

  Capture& capture_;
};

MemoryPool& RecordingCalls::pool(Device device) {
  if (device != capture_.device())
    raise<CaptureError>("[capture] the step of {} takes memory on {}: a captured step works on one device",
                        to_string(capture_.device()), to_string(device));
  return capture_.pool();
}

// Made once, outside of the capture's memory: replays read it where it is.
Array RecordingCalls::literal(Scalar value, DType dtype, Device device) {
  (void)pool(device);  // which refuses another device
  Array made;
  {
    const CaptureSuspension off;
    made = capture_.device_backend().literal(value, dtype, device);
  }
  capture_.note_literal(made, value);
  return made;
}

void RecordingCalls::require_own(std::string_view name, const Array& array) const {
  if (array.device() != capture_.device())
    raise<CaptureError>("[{}] the step of {} works on {}: a captured step works on one device", name,
                        to_string(capture_.device()), to_string(array.device()));
}

template <class Kernel, class... Arguments>
void RecordingCalls::record(std::string_view name, bool constant, const Arguments&... arguments) {
  kernel::for_each_output<Kernel>(
      [&](const Array& output) {
        if (output.defined()) require_own(name, output);
      },
      arguments...);
  {
    const CaptureSuspension off;
    Kernel::run(capture_.device_backend(), arguments...);
  }
  auto values = kept_arguments(typename Kernel::Parameters(), capture_, arguments...);
  std::unique_ptr<TapeCall> call =
      std::make_unique<KernelCall<Kernel, decltype(values)>>(name, std::move(values), constant);
  if (const IndexMeaning* meaning = IndexScope::current())
    call = std::make_unique<MeaningfulCall>(*meaning, std::move(call));
  capture_.tape().append(std::move(call));
  kernel::for_each_output<Kernel>([&](const Array& output) { capture_.note_written(output); }, arguments...);
}

void RecordingCalls::copy_from_host(const void* from, const Array& to) {
  if (!HostConstants::declared())
    raise<CaptureError>(
        "[capture] the step takes {} from the host, whose values replays would repeat: pass it as an input, or make it "
        "before the step",
        checks::describe(to));
  require_own("copy_from_host", to);
  Array values;
  {
    const CaptureSuspension off;
    values = Array::empty(to.shape(), to.dtype(), to.device());
    capture_.device_backend().copy_from_host(from, values);
    capture_.device_backend().copy(values, to);
  }
  capture_.tape().append(std::make_unique<HostCopy>(from, std::move(values), capture_.operand(to, true)));
  capture_.note_written(to);
}

void RecordingCalls::copy_to_host(const Array& from, void*) {
  raise<CaptureError>(
      "[capture] the step reads {} on the host: what depends on its value would be the same in every replay. Return it "
      "from the step and read it there",
      checks::describe(from));
}

void RecordingCalls::copy_from_device(const Array& from, const Array& to) {
  raise<CaptureError>("[capture] the step copies from {} to {}: a captured step works on one device",
                      to_string(from.device()), to_string(to.device()));
}

void RecordingCalls::call(kernel::random, const RandomCall& call, const Array& output) {
  require_own("random", output);
  {
    const CaptureSuspension off;
    capture_.device_backend().random(call, output);
  }
  DrawnHere drawn(capture_.draws(), call);
  capture_.tape().append(
      std::make_unique<RandomEntry>(std::move(drawn), capture_.operand(output, true), inner().draws_at_places()));
  capture_.note_written(output);
}

void RecordingCalls::call(kernel::dropout, const DropoutCall& call, const Array& input, const Array& output,
                          const Array& kept) {
  require_own("dropout", output);
  {
    const CaptureSuspension off;
    capture_.device_backend().dropout(call, input, output, kept);
  }
  DropoutEntry::Operands operands{capture_.operand(input), capture_.operand(output, true),
                                  capture_.operand(kept, true)};
  capture_.tape().append(std::make_unique<DropoutEntry>(DrawnHere(capture_.draws(), call.draw), call,
                                                        std::move(operands), inner().draws_at_places()));
  for (const Array& written : {output, kept}) capture_.note_written(written);
}

}  // namespace

std::unique_ptr<Backend> recording_calls(Capture& capture) { return std::make_unique<RecordingCalls>(capture); }

}  // namespace tutti
