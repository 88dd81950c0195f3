// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/gradient_of.h>
#include <tutti/backend/raise.h>

namespace tutti::detail {

constinit thread_local const ErrorContext* error_context = nullptr;
constinit thread_local const std::string_view* gradient_of = nullptr;
constinit std::atomic<std::string (*)()> place_of_thread{nullptr};
constinit std::atomic<std::string (*)()> module_of_thread{nullptr};

std::string completed(std::string message, bool about_operands) {
  std::string places;
  for (const auto* where : {&place_of_thread, &module_of_thread}) {
    const auto place_of = where->load(std::memory_order_relaxed);
    const std::string place = place_of == nullptr ? "" : place_of();
    if (message.find(place) == std::string::npos) places += (places.empty() ? "" : ", ") + place;
  }
  if (about_operands && error_context != nullptr) message = error_context->complete(std::move(message));
  return places.empty() ? message : message + " (in " + places + ")";
}

template void throw_error<Error>(fmt::string_view, fmt::format_args);
template void throw_error<ShapeError>(fmt::string_view, fmt::format_args);
template void throw_error<DTypeError>(fmt::string_view, fmt::format_args);
template void throw_error<DeviceError>(fmt::string_view, fmt::format_args);
template void throw_error<AutodiffError>(fmt::string_view, fmt::format_args);
template void throw_error<SyncError>(fmt::string_view, fmt::format_args);
template void throw_error<DataError>(fmt::string_view, fmt::format_args);

}  // namespace tutti::detail
