// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti {

/// Lets the C library keep freed memory of up to 64 MB at the top of its heap, and serve requests below 32 MB from it:
/// what glibc adapts itself to once a program frees a block of that size. By its first settings it returns 128 KB at
/// once, and a matrix product whose workspace happens to lie there costs page faults in every call. Does nothing with
/// another C library, or where the environment has settings for malloc.
void keep_freed_heap();

}  // namespace tutti
