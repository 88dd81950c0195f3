// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of NCCL that are called, which is loaded with the first call.

#include <tutti/backend/cuda/runtime/loaded_library.h>

#include <nccl.h>

namespace tutti {

LoadedLibrary& nccl_library();

TUTTI_LOADED_FUNCTION(nccl_library, ncclAllReduce)
TUTTI_LOADED_FUNCTION(nccl_library, ncclCommAbort)
TUTTI_LOADED_FUNCTION(nccl_library, ncclCommDestroy)
TUTTI_LOADED_FUNCTION(nccl_library, ncclCommFinalize)
TUTTI_LOADED_FUNCTION(nccl_library, ncclCommGetAsyncError)
TUTTI_LOADED_FUNCTION(nccl_library, ncclCommInitRankConfig)
TUTTI_LOADED_FUNCTION(nccl_library, ncclGetErrorString)
TUTTI_LOADED_FUNCTION(nccl_library, ncclGetLastError)
TUTTI_LOADED_FUNCTION(nccl_library, ncclGetUniqueId)
TUTTI_LOADED_FUNCTION(nccl_library, ncclGetVersion)
TUTTI_LOADED_FUNCTION(nccl_library, ncclGroupEnd)
TUTTI_LOADED_FUNCTION(nccl_library, ncclGroupStart)
TUTTI_LOADED_FUNCTION(nccl_library, ncclRecv)
TUTTI_LOADED_FUNCTION(nccl_library, ncclReduce)
TUTTI_LOADED_FUNCTION(nccl_library, ncclSend)
#ifdef NCCL_SHRINK_ABORT
TUTTI_LOADED_FUNCTION(nccl_library, ncclCommShrink)
#endif
#ifdef NCCL_REVOKE_DEFAULT
TUTTI_LOADED_FUNCTION(nccl_library, ncclCommRevoke)
#endif

}  // namespace tutti
