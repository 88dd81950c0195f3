// SPDX-License-Identifier: Apache-2.0
// A program that computes before `main`, as a static initialiser may. For processor_check_test.cpp.
#include <tutti/backend/operations.h>

#include <cstdio>

namespace {

const tutti::Array total = tutti::sum(tutti::Array::full({1000}, 2.0, tutti::DType::f32, tutti::cpu(0)));

}  // namespace

int main() { std::printf("%g\n", static_cast<double>(total.item<float>())); }
