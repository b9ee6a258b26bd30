"""Options of Hugging Face's TrainingArguments without meaning here, and why."""

from __future__ import annotations

from typing import Any

__all__ = ["REFUSED"]

_ONE_WAY = (
    "there is one way to train in several processes, which the launcher's variables "
    "choose (docs/distributed.md); leave it out"
)
_NO_TORCH = "the core is not PyTorch"
_HUB = "this package does not upload; push output_dir with huggingface_hub"
_WORKERS = "batches are made in one background thread, there are no loader workers"
_ONE_RECOMPUTE = (
    "there is one way to recompute here; gradient_checkpointing=True is all"
)
_CLASSIC = "metrics see all predictions at once"

# Hugging Face name -> (values that ask for nothing, reason and what to do instead)
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "fp16": ((False,), "float16 has no kernels here; use bf16=True"),
    "fp16_full_eval": ((False,), "float16 has no kernels here; use bf16=True"),
    "bf16_full_eval": (
        (False,),
        "evaluation uses the model's own type; use bf16=True for both",
    ),
    "tf32": ((None, False), "products are never rounded to TF32 here"),
    "torch_compile": ((False,), _NO_TORCH),
    "torch_compile_backend": ((None,), _NO_TORCH),
    "torch_compile_mode": ((None,), _NO_TORCH),
    "torch_empty_cache_steps": ((None,), _NO_TORCH),
    "jit_mode_eval": ((False,), _NO_TORCH),
    "use_liger_kernel": ((False,), "the kernels are this package's own"),
    "liger_kernel_config": ((None,), "the kernels are this package's own"),
    "gradient_checkpointing_kwargs": ((None,), _ONE_RECOMPUTE),
    "neftune_noise_alpha": ((None,), "noise on embeddings is not implemented"),
    "optim_args": ((None,), "AdamW takes adam_beta1, adam_beta2 and adam_epsilon"),
    "optim_target_modules": ((None,), "every parameter is trained by AdamW"),
    "average_tokens_across_devices": ((True,), _ONE_WAY),
    "local_rank": ((-1,), _ONE_WAY),
    "deepspeed": ((None,), _ONE_WAY),
    "fsdp": ((None, ""), _ONE_WAY),
    "fsdp_config": ((None,), _ONE_WAY),
    "accelerator_config": ((None,), _ONE_WAY),
    "parallelism_config": ((None,), _ONE_WAY),
    "ddp_backend": ((None,), _ONE_WAY),
    "ddp_find_unused_parameters": ((None,), _ONE_WAY),
    "log_on_each_node": ((True,), _ONE_WAY),
    "save_on_each_node": ((False,), _ONE_WAY),
    "logging_nan_inf_filter": (
        (False,),
        "non-finite losses are never hidden; choose on_nonfinite=stop, skip or warn",
    ),
    "eval_accumulation_steps": ((None,), "predictions are in main memory already"),
    "eval_do_concat_batches": ((True,), _CLASSIC),
    "batch_eval_metrics": ((False,), _CLASSIC),
    "include_for_metrics": (([], None), _CLASSIC),
    "include_inputs_for_metrics": ((False,), _CLASSIC),
    "ignore_data_skip": ((False,), "skipping seen batches costs no time here"),
    "restore_callback_states_from_checkpoint": (
        (True,),
        "callback states are always restored on resume; pass True or leave it out",
    ),
    "dataloader_num_workers": ((0,), _WORKERS),
    "dataloader_pin_memory": ((True, False), _WORKERS),
    "dataloader_persistent_workers": ((False,), _WORKERS),
    "remove_unused_columns": ((True,), "only columns the model takes are batched"),
    "label_names": ((None,), "labels are read from the key 'labels' or 'label'"),
    "length_column_name": (("length",), "lengths are counted from input_ids"),
    "push_to_hub": ((False,), _HUB),
    "hub_token": ((None,), _HUB),
    "hub_model_id": ((None,), _HUB),
    "hub_strategy": (("every_save",), _HUB),
    "enable_jit_checkpoint": (
        (False,),
        "SIGINT and SIGTERM always save a checkpoint; leave it out",
    ),
    "activation_checkpointing_kwargs": ((None,), _ONE_RECOMPUTE),
    "use_cache": ((False,), "an encoder has no cache"),
    "log_level_replica": (("warning",), _ONE_WAY),
    "project": (("huggingface",), "report_to knows tensorboard only"),
    "trackio_space_id": ((None,), "report_to knows tensorboard only"),
    "trackio_bucket_id": ((None,), "report_to knows tensorboard only"),
    "trackio_static_space_id": ((None,), "report_to knows tensorboard only"),
    "eval_use_gather_object": ((False,), _ONE_WAY),
    "hub_private_repo": ((None,), _HUB),
    "hub_always_push": ((False,), _HUB),
    "hub_revision": ((None,), _HUB),
    "dataloader_multiprocessing_context": ((None,), _WORKERS),
    "dataloader_in_order": ((True,), _WORKERS),
    "ddp_broadcast_buffers": ((None,), _ONE_WAY),
    "ddp_static_graph": ((None,), _ONE_WAY),
    "debug": (("", [], None), "there is nothing to debug between processes"),
    "use_mps_device": ((False,), "there is no MPS device in this build"),
    "evaluation_strategy": ((), "it was renamed; use eval_strategy"),
    "no_cuda": ((), "it was renamed; use use_cpu"),
    "per_gpu_train_batch_size": ((), "use per_device_train_batch_size"),
    "per_gpu_eval_batch_size": ((), "use per_device_eval_batch_size"),
    "evaluate_during_training": ((), "use eval_strategy='steps'"),
}
