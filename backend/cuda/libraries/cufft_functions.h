// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of cuFFT that are called, which is loaded with the first call.

#include <tutti/backend/cuda/runtime/loaded_library.h>

#include <cufft.h>
#include <cufftXt.h>

namespace tutti {

LoadedLibrary& cufft_library();

TUTTI_LOADED_FUNCTION(cufft_library, cufftCreate)
TUTTI_LOADED_FUNCTION(cufft_library, cufftDestroy)
TUTTI_LOADED_FUNCTION(cufft_library, cufftSetAutoAllocation)
TUTTI_LOADED_FUNCTION(cufft_library, cufftSetStream)
TUTTI_LOADED_FUNCTION(cufft_library, cufftSetWorkArea)
TUTTI_LOADED_FUNCTION(cufft_library, cufftXtExec)
TUTTI_LOADED_FUNCTION(cufft_library, cufftXtMakePlanMany)

}  // namespace tutti
