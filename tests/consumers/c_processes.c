// SPDX-License-Identifier: Apache-2.0
// A program in C that trains with the other processes of its job, by the C API alone: says where it is, and a digest of
// the trained weights, which all processes have alike.
#include <tutti/c_api.h>

#include <stdio.h>
#include <stdlib.h>

static void check(tutti_status status) {
  if (status == TUTTI_OK) return;
  fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_last_error());
  exit(1);
}

/// A batch of the device's own: its number in the world decides what it sees.
static int pass(void* context, size_t device, tutti_model* replica, tutti_step* step) {
  const size_t number = *(const size_t*)context + device;
  const float x[2][2] = {{(float)number, 1}, {2, (float)number}};
  const float y[2][1] = {{1}, {(float)number}};
  const int64_t x_shape[] = {2, 2}, y_shape[] = {2, 1};
  tutti_tensor *input, *target, *output, *loss;
  check(tutti_tensor_create(x_shape, 2, TUTTI_F32, x, sizeof x, "cpu:0", &input));
  check(tutti_tensor_create(y_shape, 2, TUTTI_F32, y, sizeof y, "cpu:0", &target));
  check(tutti_model_forward(replica, input, &output));
  check(tutti_loss("mse", output, target, &loss));
  const tutti_status status = tutti_step_backward(step, loss);
  tutti_tensor_free(input);
  tutti_tensor_free(target);
  tutti_tensor_free(output);
  tutti_tensor_free(loss);
  return status;
}

int main(void) {
  const char* const devices[] = {"cpu:0"};
  tutti_group* group;
  tutti_model *model, *replica;
  tutti_optimizer* optimizer;
  tutti_tensor* weight;
  size_t world, first;
  float values[2];
  check(tutti_group_from_environment(devices, 1, &group));
  check(tutti_group_world(group, &world, &first));
  check(tutti_model_create("mlp", "2,1", "cpu:0", 1, &model));
  check(tutti_group_replicate(group, model));
  check(tutti_group_replica(group, 0, &replica));
  check(tutti_optimizer_create("sgd", replica, NULL, &optimizer));
  for (int step = 0; step < 10; ++step) {
    check(tutti_optimizer_zero_grad(optimizer));
    check(tutti_group_step(group, 0, 2, pass, &first));
    check(tutti_optimizer_step(optimizer));
  }
  check(tutti_group_leave(group, 0));
  check(tutti_model_get_tensor(replica, "0.weight", &weight));
  check(tutti_tensor_read(weight, values, sizeof values));
  printf("device %zu of %zu\n%a %a\n", first, world, (double)values[0], (double)values[1]);
  tutti_tensor_free(weight);
  tutti_optimizer_free(optimizer);
  tutti_model_free(model);
  tutti_group_free(group);
  return 0;
}
