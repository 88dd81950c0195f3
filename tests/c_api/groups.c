// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/c_api/c_programs.h>
#include <tutti/tests/c_api/check.h>
#include <tutti/tests/c_api/clouds.h>

enum { kDevices = 3, kSteps = 40, kShare = kPoints / kDevices };
static const char* const kNames[] = {"cpu:0", "cpu:1", "cpu:2"};

/// The part of the points that one device has.
typedef struct {
  tutti_tensor* points;
  tutti_tensor* classes;
} Share;

typedef struct {
  tutti_group* group;
  Clouds clouds;
  int spoiled_device;  // fails in its third step
  int steps[kDevices];
} Training;

static tutti_status make_share(const Clouds* clouds, size_t device, Share* share) {
  const int64_t shape[] = {kShare, 2};
  const size_t first = device * kShare;
  const tutti_status status = tutti_tensor_create(shape, 2, TUTTI_F32, clouds->points[first],
                                                  sizeof(float) * 2 * kShare, kNames[device], &share->points);
  if (status != TUTTI_OK) return status;
  return tutti_tensor_create(shape, 1, TUTTI_I64, clouds->classes + first, sizeof(int64_t) * kShare, kNames[device],
                             &share->classes);
}

static int pass(void* context, size_t device, tutti_model* replica, tutti_step* step) {
  const Share* share = context;
  tutti_tensor *logits = NULL, *loss = NULL;
  (void)device;
  tutti_status status = tutti_model_forward(replica, share->points, &logits);
  if (status == TUTTI_OK) status = tutti_loss("cross_entropy", logits, share->classes, &loss);
  if (status == TUTTI_OK) status = tutti_step_backward(step, loss);
  tutti_tensor_free(logits);
  tutti_tensor_free(loss);
  return status;
}

static int train(void* context, size_t device, tutti_model* replica) {
  Training* training = context;
  Share share = {NULL, NULL};
  tutti_optimizer* optimizer = NULL;
  tutti_optimizer_options options;
  tutti_status status = make_share(&training->clouds, device, &share);
  if (status == TUTTI_OK) status = tutti_optimizer_defaults("sgd", sizeof options, &options);
  options.learning_rate = 0.2;
  options.momentum = 0.9;
  if (status == TUTTI_OK) status = tutti_optimizer_create("sgd", replica, &options, &optimizer);
  for (int step = 0; status == TUTTI_OK && step < kSteps; ++step) {
    if (training->spoiled_device == (int)device && step == 2) {
      status = 4711;
      break;
    }
    status = tutti_optimizer_zero_grad(optimizer);
    if (status == TUTTI_OK) status = tutti_group_step(training->group, device, kShare, pass, &share);
    if (status == TUTTI_OK) status = tutti_optimizer_step(optimizer);
    if (status == TUTTI_OK) ++training->steps[device];
  }
  if (status == TUTTI_OK) status = tutti_group_leave(training->group, device);
  tutti_optimizer_free(optimizer);
  tutti_tensor_free(share.points);
  tutti_tensor_free(share.classes);
  return status;
}

static int weights(const tutti_model* model, float* values, size_t bytes) {
  int failed = 0;
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_model_get_tensor(model, "0.weight", &tensor));
  CHECK_OK(tutti_tensor_read(tensor, values, bytes));
  tutti_tensor_free(tensor);
  return failed;
}

static tutti_model* make_group(Training* training, int from_environment) {
  tutti_model* model = NULL;
  memset(training, 0, sizeof *training);
  training->spoiled_device = -1;
  make_clouds(&training->clouds);
  int failed = 0;
  CHECK_OK(tutti_model_create("mlp", "2,16,3", "cpu:0", 1, &model));
  if (from_environment)
    CHECK_OK(tutti_group_from_environment(kNames, kDevices, &training->group));
  else
    CHECK_OK(tutti_group_create(kNames, kDevices, &training->group));
  CHECK_OK(tutti_group_replicate(training->group, model));
  return failed == 0 ? model : NULL;
}

static int trained(int from_environment) {
  int failed = 0;
  Training training;
  tutti_model* model = make_group(&training, from_environment);
  size_t devices = 0, first = 1;
  CHECK_OK(tutti_group_world(training.group, &devices, &first));
  CHECK(devices == kDevices && first == 0);
  CHECK_OK(tutti_group_on_every_device(training.group, train, &training));
  float expected[32], found[32];
  tutti_model* replica = NULL;
  for (size_t device = 0; device < kDevices; ++device) {
    CHECK(training.steps[device] == kSteps);
    CHECK_OK(tutti_group_replica(training.group, device, &replica));
    failed += weights(replica, device == 0 ? expected : found, sizeof found);
    if (device > 0) CHECK(memcmp(expected, found, sizeof found) == 0);
  }

  CHECK_OK(tutti_group_replica(training.group, 0, &replica));
  tutti_model_free(replica);  // is the group's
  float logits[kPoints * 3];
  const int64_t shape[] = {kPoints, 2};
  tutti_tensor *points = NULL, *output = NULL;
  CHECK_OK(tutti_tensor_create(shape, 2, TUTTI_F32, training.clouds.points, sizeof training.clouds.points, "cpu:0",
                               &points));
  CHECK_OK(tutti_model_infer(replica, points, &output));
  CHECK_OK(tutti_tensor_read(output, logits, sizeof logits));
  CHECK(clouds_accuracy(&training.clouds, logits) >= 0.98);
  tutti_tensor_free(points);
  tutti_tensor_free(output);
  tutti_model_free(model);
  // An optimizer may be freed after its replica and group.
  tutti_optimizer* optimizer = NULL;
  CHECK_OK(tutti_optimizer_create("adamw", replica, NULL, &optimizer));
  tutti_group_free(training.group);
  tutti_optimizer_free(optimizer);
  return failed;
}

int c_groups(void) { return trained(0) + trained(1); }

static int return_zero(void* context, size_t device, tutti_model* replica, tutti_step* step) {
  (void)context, (void)device, (void)replica, (void)step;
  return 0;
}

static int step_in_vain(void* context, size_t device, tutti_model* replica) {
  (void)replica;
  return tutti_group_step(context, device, 1, return_zero, NULL);
}

static int wrong_calls(void) {
  int failed = 0;
  tutti_group* group = NULL;
  tutti_model *model = NULL, *replica = NULL;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "no devices", tutti_group_create(kNames, 0, &group));
  CHECK_OK(tutti_group_create(kNames, 2, &group));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "tutti_group_replicate first", tutti_group_replica(group, 0, &replica));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "tutti_group_replicate first", tutti_group_step(group, 0, 1, return_zero, NULL));
  CHECK_OK(tutti_model_create("mlp", "2,3", "cpu:0", 1, &model));
  CHECK_OK(tutti_group_replicate(group, model));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "has its replicas", tutti_group_replicate(group, model));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "no device 2", tutti_group_replica(group, 2, &replica));
  CHECK(replica == NULL);
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "function is NULL", tutti_group_step(group, 0, 1, NULL, NULL));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "function is NULL", tutti_group_on_every_device(group, NULL, NULL));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "returned 0 without", tutti_group_on_every_device(group, step_in_vain, group));
  tutti_model_free(model);
  tutti_group_free(group);
  return failed;
}

static int ignore_failure(void* context, size_t device, tutti_model* replica, tutti_step* step) {
  (void)context, (void)device, (void)replica;
  tutti_tensor* loose = NULL;
  tutti_tensor_zeros(NULL, 0, TUTTI_F32, "cpu:0", &loose);
  tutti_step_backward(step, loose);
  tutti_tensor_free(loose);
  return 0;
}

// A step that failed does not succeed because its function says so.
static int ignored_failure(void) {
  int failed = 0;
  tutti_group* group = NULL;
  tutti_model* model = NULL;
  CHECK_OK(tutti_group_create(kNames, 1, &group));
  CHECK_OK(tutti_model_create("mlp", "2,3", "cpu:0", 1, &model));
  CHECK_OK(tutti_group_replicate(group, model));
  CHECK_FAILS(TUTTI_AUTODIFF_ERROR, "tutti_group_step", tutti_group_step(group, 0, 1, ignore_failure, NULL));
  tutti_model_free(model);
  tutti_group_free(group);
  return failed;
}

int c_failing_groups(void) {
  int failed = wrong_calls() + ignored_failure();
  Training training;
  tutti_model* model = make_group(&training, 0);
  training.spoiled_device = 1;
  // The cause is told, not the others' echoes of it.
  CHECK_FAILS(TUTTI_CALLBACK_FAILED, "returned 4711 on cpu:1",
              tutti_group_on_every_device(training.group, train, &training));
  CHECK(training.steps[0] == 2 && training.steps[1] == 2 && training.steps[2] == 2);
  CHECK_FAILS(TUTTI_SYNC_ERROR, "cpu:1", tutti_group_on_every_device(training.group, train, &training));
  tutti_model_free(model);
  tutti_group_free(training.group);
  return failed;
}
