// SPDX-License-Identifier: Apache-2.0
#pragma once

// Points of three clouds in the plane, which a small network tells apart.

#include <stddef.h>
#include <stdint.h>

enum { kPoints = 240 };

typedef struct {
  float points[kPoints][2];
  int64_t classes[kPoints];
} Clouds;

/// A number in [-1, 1).
static inline float clouds_noise(uint32_t* state) {
  *state = *state * 1664525U + 1013904223U;
  return (float)(*state >> 8) / (float)(1U << 23) - 1.0F;
}

static inline void make_clouds(Clouds* clouds) {
  static const float centers[3][2] = {{-2, -1}, {2, -1}, {0, 2}};
  uint32_t state = 1;
  for (size_t i = 0; i < kPoints; ++i) {
    clouds->classes[i] = (int64_t)(i % 3);
    for (size_t axis = 0; axis < 2; ++axis) clouds->points[i][axis] = centers[i % 3][axis] + clouds_noise(&state);
  }
}

/// The share of rows of three logits whose largest is that of the class.
static inline double clouds_accuracy(const Clouds* clouds, const float* logits) {
  size_t right = 0;
  for (size_t i = 0; i < kPoints; ++i) {
    const float* row = logits + 3 * i;
    const int64_t guess = row[0] >= row[1] && row[0] >= row[2] ? 0 : row[1] >= row[2] ? 1 : 2;
    right += guess == clouds->classes[i] ? 1U : 0U;
  }
  return (double)right / kPoints;
}
