// SPDX-License-Identifier: Apache-2.0
// Nothing: distributed/meson.build says what for.
