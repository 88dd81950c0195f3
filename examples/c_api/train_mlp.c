// SPDX-License-Identifier: Apache-2.0
// train_mlp: trains a small network by the C API, on numbers that this program has in its own arrays, and saves it.
#include <tutti/c_api.h>

#include <stdio.h>
#include <stdlib.h>

enum { kRows = 256, kSteps = 200 };

/// Ends the program with what went wrong.
static void check(tutti_status status) {
  if (status == TUTTI_OK) return;
  fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_last_error());
  exit(1);
}

/// Points in the square from -1 to 1; their class says whether both coordinates have one sign.
static void make_points(float points[kRows][2], int64_t classes[kRows]) {
  uint32_t state = 1;
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t axis = 0; axis < 2; ++axis) {
      state = state * 1664525U + 1013904223U;
      points[i][axis] = (float)(state >> 8) / (float)(1U << 23) - 1.0F;
    }
    classes[i] = (points[i][0] < 0) == (points[i][1] < 0) ? 1 : 0;
  }
}

int main(int count, char** arguments) {
  static float points[kRows][2];
  static int64_t classes[kRows];
  make_points(points, classes);
  if (tutti_c_api_version() < TUTTI_C_API_VERSION) {
    fprintf(stderr, "libtutti is older than this program\n");
    return 1;
  }

  // The points are used where they lie; they outlive the tensor, so nobody has to take them back.
  const int64_t shape[] = {kRows, 2};
  tutti_tensor *input, *target;
  check(tutti_tensor_borrow(shape, 2, TUTTI_F32, points, sizeof points, "cpu:0", NULL, NULL, &input));
  check(tutti_tensor_create(shape, 1, TUTTI_I64, classes, sizeof classes, "cpu:0", &target));

  tutti_model* model;
  tutti_optimizer* optimizer;
  tutti_optimizer_options options;
  check(tutti_model_create("mlp", "2,32,2", "cpu:0", 1, &model));
  check(tutti_optimizer_defaults("adamw", sizeof options, &options));
  options.learning_rate = 0.02;
  check(tutti_optimizer_create("adamw", model, &options, &optimizer));

  double value = 0;
  for (int step = 0; step < kSteps; ++step) {
    tutti_tensor *logits, *loss;
    check(tutti_optimizer_zero_grad(optimizer));
    check(tutti_model_forward(model, input, &logits));
    check(tutti_loss("cross_entropy", logits, target, &loss));
    check(tutti_backward(loss));
    check(tutti_optimizer_step(optimizer));
    check(tutti_tensor_item(loss, &value));
    tutti_tensor_free(logits);
    tutti_tensor_free(loss);
  }

  static float logits[kRows][2];
  tutti_tensor* output;
  check(tutti_model_set_training(model, 0));
  check(tutti_model_infer(model, input, &output));
  check(tutti_tensor_read(output, logits, sizeof logits));
  int right = 0;
  for (size_t i = 0; i < kRows; ++i) right += (logits[i][1] > logits[i][0] ? 1 : 0) == classes[i] ? 1 : 0;
  printf("loss %.3f, %d of %d right\n", value, right, kRows);
  if (count > 1) check(tutti_model_save(model, arguments[1]));  // model.safetensors

  tutti_tensor_free(output);
  tutti_tensor_free(input);
  tutti_tensor_free(target);
  tutti_optimizer_free(optimizer);
  tutti_model_free(model);
  return right >= kRows * 95 / 100 ? 0 : 1;
}
