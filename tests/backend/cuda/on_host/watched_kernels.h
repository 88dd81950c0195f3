// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti::on_host {

/// 64 threads a block.
void launch_watched(void (*kernel)(const int*, int*), unsigned blocks, const int* from, int* to);

/// Kernels for 64 numbers, most with a fault.
namespace watched {
void copy(const int* from, int* to);
void read_behind(const int* from, int* to);
void write_before(const int* from, int* to);
void write_input(const int* from, int* to);
void write_same_place(const int* from, int* to);
void reverse(const int* from, int* to);
void reverse_without_barrier(const int* from, int* to);
void reverse_in_warps(const int* from, int* to);
void reverse_across_warps(const int* from, int* to);
}  // namespace watched

}  // namespace tutti::on_host
