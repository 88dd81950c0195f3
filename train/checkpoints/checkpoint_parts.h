// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/checkpoints/part_state.h>
#include <tutti/train/checkpoints/sharded_part.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti {

using PartStates = std::vector<std::pair<std::string, PartState>>;  ///< states by the part's name

/// Choice of what goes into a checkpoint, or is taken out of it. Names are "<part>" and "<part>/<array>"; in a pattern,
/// * stands for any characters and ? for one (nn/parameter_selection.h). An array is in if an `include` matches its
/// name or its part's, and no `exclude` does; a part, if an `include` matches it or has it before its slash:
/// "model/*.bias". An `include` that matches nothing is an error, but for arrays of a part that has none now or is
/// excluded.
struct CheckpointFilter {
  std::vector<std::string> include = {"*"};
  std::vector<std::string> exclude = {};

  bool accepts_part(std::string_view name) const;
  bool accepts_array(std::string_view name) const;
};

/// Place where copies of the parts wait to be written. The host's cost the training the transfer, the device's its
/// memory.
enum class CheckpointCopies : std::uint8_t { on_device, on_host };

/// The parts of a training run that a checkpoint keeps, by name. Refers to them: they must outlive it. Used between two
/// steps, by one thread, while no other touches the parts.
///
///     CheckpointParts parts;
///     parts.add("model", model);
///     parts.add("optimizer", optimizer);
///     parts.add("stream", stream);
///     parts.add("loop", [&] { return loop_text(); }, [&](const std::string& text) { set_loop(text); });
class CheckpointParts {
 public:
  struct Part {
    std::function<PartState()> save;
    std::function<Install(const PartState&)> prepare;  ///< does as `prepare_part`
    bool model = false;                                ///< parameters and buffers, complete at any time
  };
  /// Throws Error for a name that is empty, has a slash, or is taken, and for a function that is not set.
  void add(std::string name, Part);

  /// Whatever has the two functions of part_state.h.
  template <class T>
    requires requires(T& part) { part_state(part); }
  void add(std::string name, T& part) {
    add(std::move(name),
        Part{[&part] { return part_state(part); },
             [&part](const PartState& state) { return prepare_part(part, state); }, std::is_base_of_v<Module, T>});
  }
  /// A part that is on several devices: saved from the first, loaded into all, of which there may be another number.
  template <class T> void add(std::string name, std::vector<T*> copies) {
    check_copies(name, copies.size());
    if constexpr (std::is_base_of_v<Module, T>)
      add_kept(std::move(name), std::vector<Module*>(copies.begin(), copies.end()));
    else if constexpr (std::is_same_v<ShardedOptimizer, T>)
      add_kept(std::move(name), std::move(copies));
    else
      add(std::move(name),
          Part{[first = copies.front()] { return part_state(*first); },
               [copies = std::move(copies)](const PartState& state) { return prepare_all(copies, state); }});
  }
  /// A text. `load` throws for what does not fit and changes nothing then. While all parts are checked it is called
  /// with the checkpoint's text and then with what was saved just before, which brings back all that it has changed.
  void add(std::string name, std::function<std::string()> save, std::function<void(const std::string&)> load);

  std::vector<std::string> beside_models() const;  ///< the names of the parts that are no model

  /// All parts' states, copied: the time of this call is what a checkpoint costs the training.
  PartStates save(const CheckpointFilter& = {}, CheckpointCopies = CheckpointCopies::on_device) const;
  /// Loads all parts or none. Parts that the filter leaves out keep what they have. Returns the names of those that are
  /// in the checkpoint and have not been asked for. Throws DataError naming `source` and the part when one is missing
  /// or does not fit; nothing is changed then.
  std::vector<std::string> load(PartStates, const CheckpointFilter& = {}, std::string_view source = "the state") const;
  struct Prepared {
    Install install;                  ///< loads all parts
    std::vector<std::string> unused;  ///< result of `load`
  };
  /// The first half of `load`, which has all of its errors and changes nothing.
  Prepared prepare(PartStates, const CheckpointFilter& = {}, std::string_view source = "the state") const;

 private:
  std::vector<std::string> names() const;

  template <class Copies> void add_kept(std::string name, Copies copies) {
    add(std::move(name), Part{[copies] { return part_state(copies); },
                              [copies](const PartState& state) { return prepare_part(copies, state); },
                              std::is_same_v<Copies, std::vector<Module*>>});
  }
  template <class T> static Install prepare_all(const std::vector<T*>& copies, const PartState& state) {
    std::vector<Install> installs;
    for (T* const copy : copies) installs.push_back(prepare_part(*copy, state));
    return in_order(std::move(installs));
  }
  static void check_copies(const std::string& name, std::size_t count);

  std::vector<std::pair<std::string, Part>> parts_;
};

}  // namespace tutti
