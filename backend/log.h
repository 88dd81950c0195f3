// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace tutti {

enum class LogLevel : std::uint8_t { info, warning, error };

/// Receives what the library says: a text without a line's end, of one line or more, that is valid during the call.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Gives all that the library says to `sink`: warnings of groups, errors that nobody is there to catch, progress. By
/// default, and for an empty sink, each text is written to standard error as a line. What an object has a function of
/// its own for (SyncOptions::warn, Trainer::set_log, CheckpointFolderOptions::report) goes there and not to the sink.
///
/// The sink is called by whichever thread has something to say, also one of the library's own, several at a time. It
/// should return soon: who calls it may be waited for. What it throws is ignored, and what its own thread says within
/// it is lost. When this function returns no thread is within the sink that was there before, which is destroyed. Any
/// thread; Error if a sink calls it. A child process (`fork`) has its parent's sink.
void set_log_sink(LogSink sink);

bool has_log_sink() noexcept;  ///< a sink was given; may be asked in a signal handler

/// Says something, as the library does. Any thread.
void log_message(LogLevel, std::string_view text) noexcept;

}  // namespace tutti
