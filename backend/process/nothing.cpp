// SPDX-License-Identifier: Apache-2.0
// Nothing: /meson.build says what for.
