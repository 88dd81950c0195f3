// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/train/data/data_stream.h>
#include <tutti/train/data/positions/window_position.h>
#include <tutti/train/data/windowed.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace tutti {

/// A stream whose epochs are divided into windows, each a stream of its own that is opened when its turn comes. It is
/// read window by window, with `next_window` before the items of each, or without, as one stream of all items: never
/// both ways, which is an Error.
template <class T> class WindowStream : public DataStream<T>, public Windowed {
 public:
  /// Makes the stream of one window; null: the window is to be skipped. A function of the window's number, as long as
  /// positions are to be found again.
  using Open = std::function<std::unique_ptr<DataStream<T>>(std::int64_t window)>;

  WindowStream(std::int64_t windows, Open open) : windows_(windows), open_(std::move(open)) {
    if (windows < 0) raise_message("[window_stream] there cannot be " + std::to_string(windows) + " windows");
  }

  NextWindow next_window() override {
    require(WindowUse::windowed, "next_window");
    if (std::exchange(resumed_, false)) return NextWindow::ready;
    if (at_.window + 1 >= windows_) {
      current_ = nullptr;
      return NextWindow::end;
    }
    return begin(at_.window + 1) ? NextWindow::ready : NextWindow::skip;
  }
  std::int64_t window() const override { return at_.window; }
  std::int64_t windows() const noexcept { return windows_; }

  /// Windowed: the next item of this window. Error before the first window of an epoch.
  std::optional<T> next() override {
    if (at_.use != WindowUse::windowed) return next_of_all();
    if (at_.window < 0)
      raise_message("[window_stream] next() before next_window(): this stream is read window by window");
    resumed_ = false;
    return next_of_window();
  }

  void start_epoch(std::int64_t epoch) override { stand({at_.use, epoch, -1, false, {}}, nullptr); }

  std::string position() const override {
    WindowPosition now = at_;
    now.inside = current_ != nullptr;
    if (current_) now.inner = current_->position();
    return now.text();
  }

  std::size_t devices() const override { return current_ ? current_->devices() : 0; }  ///< devices of its window
  std::string division() const override { return current_ ? current_->division() : std::string(); }

  /// Error for a position of the other kind of use. Where nothing had been read, either use may begin again.
  void seek(const std::string& text) override {
    WindowPosition there = WindowPosition::parse(text, windows_);
    if (there.use != WindowUse::undecided && at_.use != WindowUse::undecided && there.use != at_.use)
      raise_message("[window_stream] a position of " + std::string(to_string(there.use)) +
                    " use cannot be gone to in " + std::string(to_string(at_.use)) + " use");
    std::unique_ptr<DataStream<T>> window;
    if (there.inside) {
      window = open_(there.window);
      if (!window)
        raise_message<DataError>("[window_stream] window " + std::to_string(there.window) +
                                 ", where the position is, is skipped now");
      window->seek(there.inner);
    }
    stand(std::move(there), std::move(window));
    resumed_ = current_ != nullptr;
  }

 private:
  void require(WindowUse use, const char* call) {
    if (at_.use == WindowUse::undecided) at_.use = use;
    if (at_.use != use)
      raise_message("[window_stream] " + std::string(call) + "() where the stream is in " +
                    std::string(to_string(at_.use)) + " use: windowed and plain use do not mix");
  }
  void stand(WindowPosition there, std::unique_ptr<DataStream<T>> window) {
    at_ = std::move(there);
    current_ = std::move(window);
    resumed_ = false;
  }
  bool begin(std::int64_t window) {
    auto opened = open_(window);
    if (opened && at_.epoch > 0) opened->start_epoch(at_.epoch);
    current_ = std::move(opened);
    at_.window = window;
    return current_ != nullptr;
  }
  std::optional<T> next_of_window() {
    if (!current_) return std::nullopt;
    std::optional<T> item = current_->next();
    if (!item) current_ = nullptr;
    return item;
  }
  std::optional<T> next_of_all() {
    require(WindowUse::plain, "next");
    for (;;) {
      if (std::optional<T> item = next_of_window()) return item;
      if (at_.window + 1 >= windows_) return std::nullopt;
      begin(at_.window + 1);
    }
  }

  std::int64_t windows_;
  Open open_;
  WindowPosition at_;  // `inside` and `inner` are not kept up to date: current_ knows
  std::unique_ptr<DataStream<T>> current_;
  bool resumed_ = false;  // stands in a window that next_window has not spoken of since the seek
};

}  // namespace tutti
