// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/files/zlib_library.h>

#include <zlib.h>

namespace tutti {

ThirdParty zlib_library() { return {.name = "zlib", .version = zlibVersion(), .note = {}}; }

}  // namespace tutti
