// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/steps/option_checks.h>

#include <tutti/backend/raise.h>

#include <cmath>

namespace tutti {

void check_share(std::string_view optimizer, std::string_view option, double value) {
  if (!(value >= 0.0 && value < 1.0)) raise("[{}] {} must be in [0, 1), got {}", optimizer, option, value);
}

void check_positive(std::string_view optimizer, std::string_view option, double value) {
  if (!(std::isfinite(value) && value > 0.0))
    raise("[{}] {} must be finite and positive, got {}", optimizer, option, value);
}

void check_not_negative(std::string_view optimizer, std::string_view option, double value) {
  if (!(std::isfinite(value) && value >= 0.0))
    raise("[{}] {} must be finite and not negative, got {}", optimizer, option, value);
}

}  // namespace tutti
