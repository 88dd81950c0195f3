// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/nccl/nccl_version.h>

#include <tutti/backend/raise.h>

#include <fmt/format.h>

namespace tutti {

LoadedLibrary& nccl_library() {
  static LoadedLibrary& library = *new LoadedLibrary(fmt::format("libnccl.so.{}", NCCL_MAJOR));
  return library;
}

namespace {

constexpr int kOldest = NCCL_VERSION(2, 18, 0);  // communicators that do not block in group calls
constexpr int kShrinks = NCCL_VERSION(2, 27, 3);
constexpr int kRevokes = NCCL_VERSION(2, 28, 7);

#ifdef NCCL_SHRINK_ABORT
constexpr bool kDeclaresShrink = true;
#else
constexpr bool kDeclaresShrink = false;
#endif
#ifdef NCCL_REVOKE_DEFAULT
constexpr bool kDeclaresRevoke = true;
#else
constexpr bool kDeclaresRevoke = false;
#endif

std::string text_of(int code) { return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100); }

}  // namespace

NcclVersion::NcclVersion(Device device) {
  TUTTI_NCCL(device, "nccl", ncclGetVersion(&code_));
  if (code_ < kOldest)
    raise<SyncError>("[nccl] version {} is too old: communicators that never block need 2.18", text_of(code_));
}

std::string NcclVersion::text() const { return text_of(code_); }
bool NcclVersion::can_shrink() const noexcept { return kDeclaresShrink && code_ >= kShrinks; }
bool NcclVersion::can_revoke() const noexcept { return kDeclaresRevoke && code_ >= kRevokes; }

std::string NcclVersion::lacks() const {
  if (can_shrink() && can_revoke()) return {};
  const bool old_header = (!kDeclaresShrink && code_ >= kShrinks) || (!kDeclaresRevoke && code_ >= kRevokes);
  return fmt::format("NCCL {}{} lacks {}ncclCommRevoke ({})", text_of(code_),
                     old_header ? fmt::format(" with the header of {}", text_of(NCCL_VERSION_CODE)) : "",
                     can_shrink() ? "" : fmt::format("ncclCommShrink ({}) and ", text_of(kShrinks)), text_of(kRevokes));
}

void check_nccl(ncclResult_t result, const char* call, Device device, std::string_view operation) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const std::string_view text = call;
  // Text of the last error that NCCL logged: with others it may be of an earlier one.
  const char* const last = result == ncclInvalidUsage ? ncclGetLastError(nullptr) : nullptr;
  const std::string why = last == nullptr || *last == '\0' ? "" : fmt::format(" ({})", last);
  raise<SyncError>("[{}] {}: {} failed: {}{}", operation, to_string(device), text.substr(0, text.find('(')),
                   ncclGetErrorString(result), why);
}

}  // namespace tutti
