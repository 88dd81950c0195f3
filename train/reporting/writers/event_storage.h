// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

struct EventStorageOptions {
  std::size_t history = 1000;  ///< values kept of each name: the newest
  std::size_t window = 20;     ///< values that a median is taken over: the newest
};

/// The scalars of a training run by name, each with the iteration it belongs to: what training and its hooks put in and
/// writers take out. Names read "part/what" ("eval/accuracy"). Reading takes whole names, whatever scope is open.
/// Used by one thread at a time. After detectron2's and LiBai's storage of the same name.
class EventStorage {
 public:
  enum class Smoothing : std::uint8_t { none, median };
  struct Scalar {
    std::int64_t iteration;
    double value;
    friend bool operator==(const Scalar&, const Scalar&) = default;
  };
  struct Series {
    std::string name;
    Smoothing smoothing;         ///< hint that was given last
    std::deque<Scalar> history;  ///< oldest first, iterations strictly ascending
  };
  class NameScope;

  explicit EventStorage(std::int64_t start_iteration = 0, EventStorageOptions = {});
  EventStorage(const EventStorage&) = delete;
  EventStorage& operator=(const EventStorage&) = delete;

  /// Values put from now on belong to this iteration. Going back forgets what was put for it and later ones.
  void set_iteration(std::int64_t);
  std::int64_t iteration() const noexcept { return iteration_; }
  /// Examples trained on so far, by weight, of all devices.
  void set_samples(double samples) noexcept { samples_ = samples; }
  double samples() const noexcept { return samples_; }

  /// Takes the place of what was put under this name in this iteration. `smoothing` is a hint for whoever shows the
  /// value: a learning rate is wanted as it is, a loss without its noise. NaN and infinities are kept. Throws DataError
  /// for a new name that is empty, ends with "/" or contains control characters.
  void put_scalar(std::string_view name, double value, Smoothing smoothing = Smoothing::median);
  void put_scalars(std::initializer_list<std::pair<std::string_view, double>>, Smoothing = Smoothing::median);

  /// Puts "name/" in front of the names put until the result goes out of scope; nests. It must not outlive the storage.
  [[nodiscard]] NameScope name_scope(std::string_view name);

  /// Marks all values so far as written, as whoever lets writers write does. Then a text for a checkpoint tells what
  /// was not written yet: after `load_text`, writers begin with that.
  void mark_written() noexcept {
    if (!starting_) written_ = iteration_;
  }
  /// Begins to mark: what is put from now on is not written until it is marked. Without this or a mark, nothing is
  /// known of it.
  void begin_marking() noexcept {
    if (!written_) written_ = iteration_ - 1;
  }

  /// The iterations of the first values of a run, and of the first ones after each `load_text` and each way back: what
  /// a file holds for these and later iterations, from before, is void. After `load_text` it begins with what was not
  /// marked as written.
  const std::vector<std::int64_t>& starts() const noexcept { return starts_; }

  bool starting() const noexcept { return starting_; }  ///< the next value will be a start

  const std::deque<Series>& series() const noexcept { return series_; }  ///< series in the order of their first values
  const Series* find(std::string_view name) const;                       ///< nullptr if nothing was put under it
  std::optional<Scalar> latest(std::string_view name) const;
  /// The median of the newest `window` values, where two are in the middle their mean; where nothing is put, nothing.
  std::optional<double> median(std::string_view name) const;
  std::optional<double> smoothed(const Series&) const;  ///< the median or the latest value, as its hint says

  /// Everything but open scopes, as text for a checkpoint; numbers are exact.
  std::string to_text() const;
  /// Takes the place of everything but options and open scopes. Throws DataError for another text; nothing is changed
  /// then. Longer histories than the options allow lose their oldest values.
  void load_text(const std::string& text) { prepare_load(text)(); }
  /// `load_text` in two parts: all that can fail, and a function that does the rest, to be called once.
  std::function<void()> prepare_load(const std::string&);

 private:
  std::optional<std::int64_t> first_unwritten() const;
  Series& series_of(std::string_view whole_name, Smoothing);
  std::size_t add_series(std::string_view whole_name);
  std::optional<double> median_of(const Series&) const;

  EventStorageOptions options_;
  std::int64_t iteration_;
  double samples_ = 0;
  std::string prefix_;
  bool starting_ = true;                 // nothing was put since the run began or went back
  std::optional<std::int64_t> written_;  // last iteration written; nothing: not known
  std::vector<std::int64_t> starts_;
  std::deque<Series> series_;                                // a deque: references stay
  std::map<std::string, std::size_t, std::less<>> indices_;  // places in series_, by name
  std::size_t expected_ = 0;                                 // index of what is put next, perhaps
};

/// Result of name_scope: the scope ends with it.
class EventStorage::NameScope {
 public:
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  ~NameScope() { storage_.prefix_.resize(outer_length_); }

 private:
  friend class EventStorage;
  NameScope(EventStorage& storage, std::string_view name) : storage_(storage), outer_length_(storage.prefix_.size()) {
    storage.prefix_.append(name).append("/");
  }

  EventStorage& storage_;
  std::size_t outer_length_;
};

/// Shows or files what a storage holds. Used by one thread at a time, the storage's. A writer is for one storage.
class EventWriter {
 public:
  EventWriter() = default;
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;
  virtual ~EventWriter() = default;

  /// Called whenever the values so far are to be shown or filed.
  virtual void write(const EventStorage&) = 0;
  virtual void close() {}  ///< nothing is written afterwards; may be called again
};

}  // namespace tutti
