// SPDX-License-Identifier: Apache-2.0
#pragma once

// Macros that read the parameters of what is listed once. Those of a kernel (backend/kernel_list.h) are (type, name):
//
//   TUTTI_PARAMETERS((In, from), (bool, flag))       In from, bool flag
//   TUTTI_ARGUMENTS((In, from), (bool, flag))        from, flag
//   TUTTI_PARAMETER_TYPES((In, from), (bool, flag))  In, bool
//
// Those of an elementwise operation (backend/elementwise/operation_list.h) are (name, default), and follow an operand:
//
//   TUTTI_DEFAULTS((low, 0), (high, 1))              , double low = 0, double high = 1
//   TUTTI_DOUBLES((low, 0), (high, 1))               , double low, double high
//   TUTTI_NAMES((low, 0), (high, 1))                 low, high
//
// TUTTI_EACH_OF(macro, ...) applies a macro of two parameters to each, with commas between.

#define TUTTI_PARAMETERS(...) TUTTI_EACH_OF(TUTTI_PARAMETER, __VA_ARGS__)
#define TUTTI_ARGUMENTS(...) TUTTI_EACH_OF(TUTTI_SECOND, __VA_ARGS__)
#define TUTTI_PARAMETER_TYPES(...) TUTTI_EACH_OF(TUTTI_FIRST, __VA_ARGS__)
#define TUTTI_DEFAULTS(...) __VA_OPT__(, ) TUTTI_EACH_OF(TUTTI_DEFAULT, __VA_ARGS__)
#define TUTTI_DOUBLES(...) __VA_OPT__(, ) TUTTI_EACH_OF(TUTTI_DOUBLE, __VA_ARGS__)
#define TUTTI_NAMES(...) TUTTI_EACH_OF(TUTTI_FIRST, __VA_ARGS__)

#define TUTTI_FIRST(first, second) first
#define TUTTI_SECOND(first, second) second
#define TUTTI_PARAMETER(type, name) type name
#define TUTTI_DEFAULT(name, value) double name = value
#define TUTTI_DOUBLE(name, value) double name

// A macro is not expanded within itself: each TUTTI_EACH leaves the next one to be found by another scan, of which
// TUTTI_EXPAND makes more than anything has parameters.
#define TUTTI_EACH_OF(macro, ...) __VA_OPT__(TUTTI_EXPAND(TUTTI_EACH(macro, __VA_ARGS__)))
#define TUTTI_EACH(macro, first, ...) macro first __VA_OPT__(, TUTTI_EACH_AGAIN TUTTI_NOTHING()()(macro, __VA_ARGS__))
#define TUTTI_EACH_AGAIN() TUTTI_EACH
#define TUTTI_NOTHING()
#define TUTTI_EXPAND(...) TUTTI_EXPAND_8(TUTTI_EXPAND_8(__VA_ARGS__))
#define TUTTI_EXPAND_8(...) TUTTI_EXPAND_4(TUTTI_EXPAND_4(__VA_ARGS__))
#define TUTTI_EXPAND_4(...) TUTTI_EXPAND_2(TUTTI_EXPAND_2(__VA_ARGS__))
#define TUTTI_EXPAND_2(...) TUTTI_EXPAND_1(TUTTI_EXPAND_1(__VA_ARGS__))
#define TUTTI_EXPAND_1(...) __VA_ARGS__
