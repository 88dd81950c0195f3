// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/weighted_formula.h>

#include <tutti/backend/cuda_elementwise.cuh>

TUTTI_CUDA_ELEMENTWISE(tutti::testing::WeightedFormula)
