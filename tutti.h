// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything that programs write models and trainings with, in one header, which takes a compiler 3 to 4 seconds.
// Sources of large programs compile faster with the headers that they use: autodiff/operations.h, nn/linear.h and
// optim/adamw.h take a quarter of it each, distributed/gradient_sync.h takes 0.4, train/learner.h 0.8. Besides there
// are exchange/eigen.h, for programs that use Eigen, and what extends the library: backend/registry.h (kinds of
// devices), autodiff/node.h and autodiff/custom_elementwise.h (operations), backend/custom_kernel.h (kernels),
// distributed/communicator.h.

#if __cplusplus < 202002L
#error "Tutti needs C++20: compile with -std=c++20 or a later standard"
#endif

#include <tutti/version.h>

// Tensors, operations, gradients.
#include <tutti/autodiff/anomaly.h>
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/checkpoint.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/gradcheck.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/scope.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/log.h>
#include <tutti/backend/profile.h>
#include <tutti/backend/random.h>

// Layers and losses.
#include <tutti/nn/activation.h>
#include <tutti/nn/adaptive_pooling.h>
#include <tutti/nn/attention.h>
#include <tutti/nn/captured_forward.h>
#include <tutti/nn/conv1d.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/conv3d.h>
#include <tutti/nn/conv_transpose.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/embedding_bag.h>
#include <tutti/nn/empty_batch.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/hash_embedding.h>
#include <tutti/nn/initialize.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/module_list.h>
#include <tutti/nn/module_tree.h>
#include <tutti/nn/normalization.h>
#include <tutti/nn/parameter_selection.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/recurrent.h>
#include <tutti/nn/sequential.h>
#include <tutti/nn/transformer.h>
#include <tutti/nn/unshown_members.h>
#include <tutti/nn/upsample.h>

// Optimizers, clipping, schedules.
#include <tutti/optim/adadelta.h>
#include <tutti/optim/adagrad.h>
#include <tutti/optim/adam.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/gradient_scaler.h>
#include <tutti/optim/lamb.h>
#include <tutti/optim/lbfgs.h>
#include <tutti/optim/lion.h>
#include <tutti/optim/muon.h>
#include <tutti/optim/radam.h>
#include <tutti/optim/reduce_on_plateau.h>
#include <tutti/optim/rmsprop.h>
#include <tutti/optim/schedule.h>
#include <tutti/optim/scheduler.h>
#include <tutti/optim/sgd.h>
#include <tutti/optim/sparse_optimizer.h>
#include <tutti/optim/weight_average.h>

// Several devices.
#include <tutti/distributed/batch_norm_sync.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/power_sgd.h>
#include <tutti/distributed/process_group.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>

// Files and memory of other programs, printing.
#include <tutti/exchange/dlpack.h>
#include <tutti/exchange/module_state.h>
#include <tutti/exchange/npy.h>
#include <tutti/exchange/npz.h>
#include <tutti/exchange/print.h>
#include <tutti/exchange/safetensors.h>

// Models of ONNX files.
#include <tutti/onnx/onnx_model.h>
#include <tutti/onnx/save_onnx.h>

// Data, trainers, checkpoints, metrics, models for C; a library may be built without (-Dtrain=false,
// -Drecommender=false).
#if !defined(TUTTI_WITHOUT_TRAIN) && __has_include(<tutti/train/trainer.h>)
#include <tutti/c_api/model_registry.h>
#include <tutti/train/captured_step.h>
#include <tutti/train/checkpoints/checkpoint_folder.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/data/csv.h>
#include <tutti/train/data/idx.h>
#include <tutti/train/data/joined.h>
#include <tutti/train/data/mapped.h>
#include <tutti/train/data/prefetch.h>
#include <tutti/train/data/samplers.h>
#include <tutti/train/data/tokens.h>
#include <tutti/train/data/transforms.h>
#include <tutti/train/data/vocabulary.h>
#include <tutti/train/data/window_stream.h>
#include <tutti/train/data/windowed.h>
#include <tutti/train/device_threads.h>
#include <tutti/train/distributed_training.h>
#include <tutti/train/eager_trainer.h>
#include <tutti/train/graph_trainer.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/checkpointer.h>
#include <tutti/train/hooks/early_stopping.h>
#include <tutti/train/hooks/iteration_timer.h>
#include <tutti/train/hooks/learning_rate.h>
#include <tutti/train/hooks/periodic_writer.h>
#include <tutti/train/hooks/progress_bar.h>
#include <tutti/train/hooks/run_statistics_hook.h>
#include <tutti/train/hooks/stop_on_interrupt.h>
#include <tutti/train/hooks/stop_on_request.h>
#include <tutti/train/learner.h>
#include <tutti/train/reporting/auc.h>
#include <tutti/train/reporting/classification_metrics.h>
#include <tutti/train/reporting/console_writer.h>
#include <tutti/train/reporting/csv_writer.h>
#include <tutti/train/reporting/json_lines_writer.h>
#include <tutti/train/reporting/metrics.h>
#include <tutti/train/reporting/run_record.h>
#include <tutti/train/reporting/tensorboard_writer.h>
#if !defined(TUTTI_WITHOUT_RECOMMENDER) && __has_include(<tutti/train/recommender_trainer.h>)
#include <tutti/train/hooks/model_bank_loader.h>
#include <tutti/train/recommender_trainer.h>
#endif
#endif
