// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/recording_calls.h>

#include <tutti/backend/elementwise/formulas.h>
#include <tutti/backend/error.h>
#include <tutti/backend/index_meaning.h>
#include <tutti/backend/operand_checks.h>

#include <array>
#include <cstring>

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

/// Calls of libraries that are not known to queue all that they do, or that are bound to a stream: no part of a graph.
constexpr bool kByLibrary = false;

/// How a tape keeps an argument.
template <class T> T kept(Capture&, const T& value, bool) { return value; }
TapeOperand kept(Capture& capture, const Array& array, bool written) { return capture.operand(array, written); }
TapeOperands kept(Capture& capture, const std::span<const Array>& arrays, bool) {
  TapeOperands operands;
  for (const Array& array : arrays) {
    TapeOperand one = capture.operand(array);
    operands.arrays.push_back(std::move(one.array));
    operands.sources.push_back(one.source);
  }
  return operands;
}

/// Tells the last `Count` of the arguments that are arrays by themselves, asked for each in order.
template <std::size_t Count, class... Arguments> class Outputs {
 public:
  template <class T> bool operator()(const T&) {
    if constexpr (std::is_same_v<T, Array>) return seen_++ + Count >= kArrays;
    return false;
  }

 private:
  static constexpr std::size_t kArrays = (std::size_t{0} + ... + (std::is_same_v<Arguments, Array> ? 1 : 0));
  std::size_t seen_ = 0;
};

/// Calls f for each of these arrays.
template <std::size_t Count, class F, class... Arguments> void for_outputs(const F& f, const Arguments&... arguments) {
  Outputs<Count, Arguments...> is_output;
  const auto visit = [&]<class T>(const T& argument) {
    if (is_output(argument))
      if constexpr (std::is_same_v<T, Array>) f(argument);
  };
  (visit(arguments), ...);
}

}  // namespace

RecordingCalls::RecordingCalls(Capture& capture) : capture_(capture), inner_(capture.device_backend()) {}

MemoryPool& RecordingCalls::pool(Device device) {
  if (device != capture_.device())
    raise<CaptureError>("[capture] the step of {} takes memory on {}: a captured step works on one device",
                        to_string(capture_.device()), to_string(device));
  return capture_.pool();
}

void RecordingCalls::require_own(std::string_view name, const Array& array) const {
  if (array.device() != capture_.device())
    raise<CaptureError>("[{}] the step of {} works on {}: a captured step works on one device", name,
                        to_string(capture_.device()), to_string(array.device()));
}

template <std::size_t Count, bool kConstant, class Method, class... Arguments>
void RecordingCalls::pass_on(std::string_view name, Method method, const Arguments&... arguments) {
  for_outputs<Count>(
      [&](const Array& output) {
        if (output.defined()) require_own(name, output);
      },
      arguments...);
  {
    const CaptureSuspension off;
    (inner_.*method)(arguments...);
  }
  using Call = MethodCall<Method, decltype(kept(capture_, arguments, false))...>;
  Outputs<Count, Arguments...> is_output;
  typename Call::Values in_order{kept(capture_, arguments, is_output(arguments))...};
  std::unique_ptr<TapeCall> call = std::make_unique<Call>(name, method, std::move(in_order), kConstant);
  if (const IndexMeaning* meaning = IndexScope::current())
    call = std::make_unique<MeaningfulCall>(*meaning, std::move(call));
  capture_.tape().append(std::move(call));
  for_outputs<Count>([&](const Array& output) { capture_.note_written(output); }, arguments...);
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
    inner_.copy_from_host(from, values);
    inner_.copy(values, to);
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

void RecordingCalls::random(const RandomCall& call, const Array& output) {
  require_own("random", output);
  {
    const CaptureSuspension off;
    inner_.random(call, output);
  }
  DrawnHere drawn(capture_.draws(), call);
  capture_.tape().append(
      std::make_unique<RandomEntry>(std::move(drawn), capture_.operand(output, true), inner_.draws_at_places()));
  capture_.note_written(output);
}

void RecordingCalls::dropout(const DropoutCall& call, const Array& input, const Array& output, const Array& kept) {
  require_own("dropout", output);
  {
    const CaptureSuspension off;
    inner_.dropout(call, input, output, kept);
  }
  DropoutEntry::Operands operands{capture_.operand(input), capture_.operand(output, true),
                                  capture_.operand(kept, true)};
  capture_.tape().append(std::make_unique<DropoutEntry>(DrawnHere(capture_.draws(), call.draw), call,
                                                        std::move(operands), inner_.draws_at_places()));
  for (const Array& written : {output, kept}) capture_.note_written(written);
}
void RecordingCalls::dropout_gradient(double factor, const Array& kept, const Array& input, const Array& output) {
  pass_on("dropout_gradient", &Backend::dropout_gradient, factor, kept, input, output);
}

// Its rule holds the learning rate and the number of the step.
void RecordingCalls::optimizer_step(const OptimizerRule&, std::span<const RuleOperands>) {
  raise<CaptureError>("[capture] an optimizer steps within the step: call it after the step");
}

void RecordingCalls::copy(const Array& from, const Array& to) { pass_on("copy", &Backend::copy, from, to); }
void RecordingCalls::cast(const Array& from, const Array& to) { pass_on("cast", &Backend::cast, from, to); }
void RecordingCalls::fill(const Array& to, Scalar value) { pass_on("fill", &Backend::fill, to, value); }
void RecordingCalls::arange(const Array& to, std::int64_t first, std::int64_t step) {
  pass_on("arange", &Backend::arange, to, first, step);
}

void RecordingCalls::elementwise(const ElementwiseCall& call, std::span<const Array> inputs, const Array& output) {
  pass_on(elementwise::kNames[call.operation], &Backend::elementwise, call, inputs, output);
}
void RecordingCalls::where(const Array& mask, const Array& a, const Array& b, const Array& output) {
  pass_on("where", &Backend::where, mask, a, b, output);
}
void RecordingCalls::reduce(Reduction kind, const Array& input, const Array& output) {
  pass_on("reduce", &Backend::reduce, kind, input, output);
}
void RecordingCalls::arg_reduce(ArgReduction kind, const Array& input, std::size_t axis, const Array& output) {
  pass_on("arg_reduce", &Backend::arg_reduce, kind, input, axis, output);
}
void RecordingCalls::cumsum(const Array& input, std::size_t axis, bool reverse, const Array& output) {
  pass_on("cumsum", &Backend::cumsum, input, axis, reverse, output);
}
void RecordingCalls::running_arg(ArgReduction kind, const Array& input, std::size_t axis, const Array& output) {
  pass_on("running_arg", &Backend::running_arg, kind, input, axis, output);
}
void RecordingCalls::arg_sort(const Array& input, std::size_t axis, bool descending, const Array& output) {
  pass_on("arg_sort", &Backend::arg_sort, input, axis, descending, output);
}
void RecordingCalls::fourier(const FourierTransform& transform, const Array& input, const Array& output) {
  pass_on<1, kByLibrary>("fourier", &Backend::fourier, transform, input, output);
}

void RecordingCalls::matmul(const Array& lhs, const Array& rhs, const Array& output) {
  pass_on("matmul", &Backend::matmul, lhs, rhs, output);
}
void RecordingCalls::linear(const Array& input, const Array& weight, const Array& bias, LinearActivation activation,
                            const Array& output) {
  pass_on("linear", &Backend::linear, input, weight, bias, activation, output);
}
void RecordingCalls::softmax(SoftmaxKind kind, const Array& input, std::size_t axis, const Array& output) {
  pass_on("softmax", &Backend::softmax, kind, input, axis, output);
}
void RecordingCalls::softmax_gradient(SoftmaxKind kind, const Array& output, const Array& gradient, std::size_t axis,
                                      const Array& input_gradient) {
  pass_on("softmax_gradient", &Backend::softmax_gradient, kind, output, gradient, axis, input_gradient);
}
void RecordingCalls::normalize_rows(const RowNorm& norm, const Array& input, const Array& weight, const Array& bias,
                                    const Array& output, const Array& mean, const Array& scale) {
  pass_on<3>("normalize_rows", &Backend::normalize_rows, norm, input, weight, bias, output, mean, scale);
}
void RecordingCalls::normalize_rows_gradient(const RowNorm& norm, const Array& input, const Array& weight,
                                             const Array& mean, const Array& scale, const Array& gradient,
                                             const Array& input_gradient) {
  pass_on("normalize_rows_gradient", &Backend::normalize_rows_gradient, norm, input, weight, mean, scale, gradient,
          input_gradient);
}
void RecordingCalls::normalize_rows_sums(const Array& input, const Array& mean, const Array& scale,
                                         const Array& gradient, const Array& weight_sums, const Array& bias_sums) {
  pass_on<2>("normalize_rows_sums", &Backend::normalize_rows_sums, input, mean, scale, gradient, weight_sums,
             bias_sums);
}
void RecordingCalls::gather(const Array& input, std::size_t axis, const Array& index, const Array& output) {
  pass_on("gather", &Backend::gather, input, axis, index, output);
}
void RecordingCalls::scatter(Scatter kind, const Array& updates, std::size_t axis, const Array& index,
                             const Array& output) {
  pass_on(kind == Scatter::add ? "scatter_add" : "scatter", &Backend::scatter, kind, updates, axis, index, output);
}
void RecordingCalls::conv2d(const Conv2dGeometry& geometry, const Array& input, const Array& weight,
                            const Array& output) {
  pass_on("conv2d", &Backend::conv2d, geometry, input, weight, output);
}
void RecordingCalls::conv2d_input_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& weight,
                                           const Array& input_gradient) {
  pass_on("conv2d_input_gradient", &Backend::conv2d_input_gradient, geometry, gradient, weight, input_gradient);
}
void RecordingCalls::conv2d_weight_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& input,
                                            const Array& weight_gradient) {
  pass_on("conv2d_weight_gradient", &Backend::conv2d_weight_gradient, geometry, gradient, input, weight_gradient);
}
void RecordingCalls::max_pool2d(const Pool2dGeometry& geometry, const Array& input, const Array& output,
                                const Array& index) {
  pass_on<2>("max_pool2d", &Backend::max_pool2d, geometry, input, output, index);
}
void RecordingCalls::max_pool2d_gradient(const Pool2dGeometry& geometry, const Array& gradient, const Array& index,
                                         const Array& input_gradient) {
  pass_on("max_pool2d_gradient", &Backend::max_pool2d_gradient, geometry, gradient, index, input_gradient);
}
void RecordingCalls::avg_pool2d(const AvgPool2dGeometry& geometry, const Array& input, const Array& output) {
  pass_on("avg_pool2d", &Backend::avg_pool2d, geometry, input, output);
}
void RecordingCalls::avg_pool2d_gradient(const AvgPool2dGeometry& geometry, const Array& gradient,
                                         const Array& input_gradient) {
  pass_on("avg_pool2d_gradient", &Backend::avg_pool2d_gradient, geometry, gradient, input_gradient);
}
void RecordingCalls::factorize(Factorization kind, const Array& input, const Array& output) {
  pass_on<1, kByLibrary>("factorize", &Backend::factorize, kind, input, output);
}
void RecordingCalls::lu(const Array& input, const Array& factors, const Array& permutation, const Array& sign) {
  pass_on<3, kByLibrary>("lu", &Backend::lu, input, factors, permutation, sign);
}
void RecordingCalls::solve_triangular(const TriangularSystem& system, const Array& matrix, const Array& right,
                                      const Array& output) {
  pass_on<1, kByLibrary>("solve_triangular", &Backend::solve_triangular, system, matrix, right, output);
}

}  // namespace tutti
