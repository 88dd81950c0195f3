// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/memory/sanitized.h>

// Defines TUTTI_THREAD_SANITIZED where ThreadSanitizer watches.
#if defined(__SANITIZE_THREAD__)
#define TUTTI_THREAD_SANITIZED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TUTTI_THREAD_SANITIZED
#endif
#endif

namespace tutti::testing {

/// Whether a sanitizer watches this program: tests compute ten times as long there.
using tutti::kIsSanitized;

/// Whether that is ThreadSanitizer, which lets no child of a process with threads start one.
#ifdef TUTTI_THREAD_SANITIZED
inline constexpr bool kIsThreadSanitized = true;
#else
inline constexpr bool kIsThreadSanitized = false;
#endif

}  // namespace tutti::testing
