// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/random.h>
#include <tutti/distributed/gradient_compression.h>
#include <tutti/exchange/arrays/named_arrays.h>
#include <tutti/nn/module.h>
#include <tutti/optim/gradient_scaler.h>
#include <tutti/optim/optimizer.h>
#include <tutti/optim/reduce_on_plateau.h>
#include <tutti/optim/weight_average.h>
#include <tutti/train/data/data_stream.h>

#include <concepts>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// State that one part of a training run (a model, an optimizer, a stream's position) gives to a checkpoint.
struct PartState {
  /// Names are unique; the storage is the state's own, so that training may go on. From a file they come in any order.
  NamedArrays arrays;
  std::string text;  ///< UTF-8
  /// Arrays that a filter took out: a module keeps what it has under these names.
  std::set<std::string> left_out = {};
};

/// Gives a part a state that has been checked and copied to where it belongs. Fails for lack of memory only.
using Install = std::function<void()>;
Install in_order(std::vector<Install>);  ///< installs all of them, in order

// Two functions for each kind of part: `part_state` gives its state now, `prepare_part` checks a state and returns what
// installs it. `prepare_part` throws Error for a state that does not fit; nothing is changed until the result is
// called. For kinds of your own write the two beside the type: CheckpointParts::add finds them.

/// Parameters and buffers of the first of a model's replicas, by name, and in the text where the dropout layers of each
/// stand. All replicas get the values, and those on devices of the same number their own random state; without a text
/// they keep theirs.
PartState part_state(const std::vector<Module*>& replicas);
Install prepare_part(const std::vector<Module*>& replicas, const PartState&);
inline PartState part_state(Module& module) { return part_state(std::vector{&module}); }
inline Install prepare_part(Module& module, const PartState& state) {
  return prepare_part(std::vector{&module}, state);
}

/// Text of where the dropout layers of replicas draw, for each layer by name and each device by number; "" where there
/// are none.
std::string random_text(const std::vector<Module*>& replicas);
/// One such text of several, which are of different devices. DataError for others.
std::string joined_random_texts(std::span<const std::string>);

/// Arrays are "<parameter's position>:<name>", the text has the kind, the counts and the learning rates.
PartState part_state(const Optimizer::State&);
Optimizer::State optimizer_state(const PartState&);  ///< throws DataError
PartState part_state(const Optimizer&);              ///< Error if it is torn: parameters are of two steps
Install prepare_part(Optimizer&, const PartState&);

/// Arrays are "<parameter's position>". Error while a scope has the averages applied: the model would be saved with
/// them.
PartState part_state(const WeightAverage&);
Install prepare_part(WeightAverage&, const PartState&);

PartState part_state(const GradientCompression&);
Install prepare_part(GradientCompression&, const PartState&);

PartState part_state(const Generator&);
Install prepare_part(Generator&, const PartState&);

/// A part that is a text: `load` throws for what does not fit, and changes nothing then. To find that out it is called
/// with `then` and at once with `now`, which must bring back all that it has changed.
Install prepare_text(const std::string& now, const std::string& then, std::function<void(const std::string&)> load);

/// Part that has its state as text, and perhaps `prepare_load(text)`, which changes nothing and returns what loads it:
/// for what a load changes beside that state.
template <class T>
concept TextState = requires(T& part, const std::string& text) {
  { std::as_const(part).to_text() } -> std::convertible_to<std::string>;
  part.load_text(text);
};
PartState part_state(const TextState auto& part) { return {{}, part.to_text()}; }
Install prepare_part(TextState auto& part, const PartState& state) {
  if constexpr (requires { Install(part.prepare_load(state.text)); })
    return part.prepare_load(state.text);
  else
    return prepare_text(part.to_text(), state.text, [&part](const std::string& text) { part.load_text(text); });
}

/// A stream's position.
template <class T> PartState part_state(const DataStream<T>& stream) { return {{}, stream.position()}; }
template <class T> Install prepare_part(DataStream<T>& stream, const PartState& state) {
  return prepare_text(stream.position(), state.text, [&stream](const std::string& text) { stream.seek(text); });
}

}  // namespace tutti
