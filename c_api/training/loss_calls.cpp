// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api.h>

#include <tutti/autodiff/backward.h>
#include <tutti/c_api/calls/handles.h>
#include <tutti/nn/loss.h>

using namespace tutti;
using namespace tutti::c_api;

namespace {

Tensor loss_of(const std::string& kind, const Tensor& prediction, const Tensor& target) {
  if (kind == "cross_entropy") return cross_entropy(prediction, target);
  if (kind == "bce_with_logits") return binary_cross_entropy_with_logits(prediction, target);
  if (kind == "mse") return mse_loss(prediction, target);
  if (kind == "l1") return l1_loss(prediction, target);
  refuse("no loss \"" + kind + "\"; there are cross_entropy, bce_with_logits, mse, l1");
}

}  // namespace

tutti_status tutti_loss(const char* kind, const tutti_tensor* prediction, const tutti_tensor* target,
                        tutti_tensor** result) {
  return guarded("tutti_loss", [&] {
    tutti_tensor*& made = empty_result(result);
    const std::string wanted = required_text(kind, "kind");
    const Tensor& predicted = value_of(prediction, "prediction");
    give(made, loss_of(wanted, predicted, value_of(target, "target")));
  });
}

tutti_status tutti_backward(const tutti_tensor* loss) {
  return guarded("tutti_backward", [&] { backward(value_of(loss, "loss")); });
}
