// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tests in C11: each returns how many of its checks failed, and prints them.

#ifdef __cplusplus
extern "C" {
#endif

int c_tensors(void);
int c_errors(void);
int c_models(const char* folder);
int c_training(void);
int c_groups(void);
int c_failing_groups(void);

#ifdef __cplusplus
}
#endif
