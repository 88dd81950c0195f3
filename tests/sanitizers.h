// SPDX-License-Identifier: Apache-2.0
#pragma once

// Defines TUTTI_SANITIZED where AddressSanitizer or ThreadSanitizer watches: tests compute ten times as long there.
#if defined(__SANITIZE_THREAD__)
#define TUTTI_THREAD_SANITIZED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TUTTI_THREAD_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TUTTI_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TUTTI_SANITIZED
#endif
#endif

namespace tutti::testing {

/// Whether a sanitizer watches this program.
#ifdef TUTTI_SANITIZED
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// Whether that is ThreadSanitizer, which lets no child of a process with threads start one.
#ifdef TUTTI_THREAD_SANITIZED
inline constexpr bool kIsThreadSanitized = true;
#else
inline constexpr bool kIsThreadSanitized = false;
#endif

}  // namespace tutti::testing
