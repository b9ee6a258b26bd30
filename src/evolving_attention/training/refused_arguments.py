"""Options of Hugging Face's TrainingArguments that are refused here, and why."""

from __future__ import annotations

import re
from typing import Any

# reason and what to do instead -> Hugging Face's names
_REASONS = {
    "there are no float16 kernels; use bf16=True": "fp16 fp16_full_eval",
    "evaluation uses the model's own type; use bf16=True for both": "bf16_full_eval",
    "products are never rounded to TF32 here": "tf32",
    "the core has its own kernels and does not use PyTorch": "torch_compile "
    "torch_compile_backend torch_compile_mode torch_empty_cache_steps jit_mode_eval "
    "use_liger_kernel liger_kernel_config",
    "recomputation has no options here; use gradient_checkpointing=True": (
        "gradient_checkpointing_kwargs activation_checkpointing_kwargs"
    ),
    "noise on embeddings is not implemented": "neftune_noise_alpha",
    "one optimizer trains every parameter": "optim_target_modules",
    "the launcher's variables alone configure several processes "
    "(docs/distributed.md); leave it out": "average_tokens_across_devices "
    "local_rank deepspeed fsdp fsdp_config accelerator_config parallelism_config "
    "ddp_backend ddp_find_unused_parameters ddp_broadcast_buffers ddp_static_graph "
    "log_on_each_node save_on_each_node log_level_replica eval_use_gather_object debug",
    "non-finite losses are never hidden; choose on_nonfinite=stop, skip or warn": (
        "logging_nan_inf_filter"
    ),
    "predictions are in main memory already": "eval_accumulation_steps",
    "metrics get all predictions at once": "eval_do_concat_batches batch_eval_metrics "
    "include_for_metrics include_inputs_for_metrics",
    "skipping seen batches costs no time here": "ignore_data_skip",
    "callback states are always restored on resume; pass True or leave it out": (
        "restore_callback_states_from_checkpoint"
    ),
    "one background thread makes the batches; there are no loader workers": (
        "dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers "
        "dataloader_multiprocessing_context dataloader_in_order"
    ),
    "labels are read from the key 'labels' or 'label'": "label_names",
    "lengths are counted from input_ids": "length_column_name",
    "this package does not upload; push output_dir with huggingface_hub": (
        "push_to_hub hub_token hub_model_id hub_strategy hub_private_repo "
        "hub_always_push hub_revision"
    ),
    "SIGINT, SIGTERM and SIGHUP always save a checkpoint; leave it out": (
        "enable_jit_checkpoint"
    ),
    "an encoder has no cache": "use_cache",
    "report_to supports tensorboard only": "project trackio_space_id trackio_bucket_id "
    "trackio_static_space_id",
    "there is no MPS device in this build": "use_mps_device",
    "it was renamed; use eval_strategy": "evaluation_strategy evaluate_during_training",
    "it was renamed; use use_cpu": "no_cuda",
    "use per_device_train_batch_size": "per_gpu_train_batch_size",
    "use per_device_eval_batch_size": "per_gpu_eval_batch_size",
}
_NOTHING: tuple[Any, ...] = (None, False, "", [])  # includes 0, which equals False
# options with other harmless values than those above
_HARMLESS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        (
            "average_tokens_across_devices",
            "dataloader_in_order",
            "eval_do_concat_batches",
            "log_on_each_node",
            "restore_callback_states_from_checkpoint",
        ),
        (True,),
    ),
    "dataloader_pin_memory": (True, False),
    "hub_strategy": ("every_save",),
    "length_column_name": ("length",),
    "local_rank": (-1,),
    "log_level_replica": ("warning",),
    "project": ("huggingface",),
}

#: Hugging Face's name -> (values without effect, reason and what to do instead)
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    name: (_HARMLESS.get(name, _NOTHING), reason)
    for reason, names in _REASONS.items()
    for name in names.split()
}


def on_the_command_line(name: str, value: Any) -> str | None:
    """Returns the error for such a command-line option; None if its value is harmless.

    Example:
        >>> on_the_command_line("fp16", True)
        '--fp16 is not supported: there are no float16 kernels; use --bf16'
    """
    harmless, reason = REFUSED[name]
    if value in harmless:
        return None
    given = f"--{name}" if value is True else f"--{name} {value}"
    spelled = re.sub(r"\b([a-z0-9_]+)=True\b", r"--\1", reason)
    spelled = re.sub(r"\b([a-z0-9_]+)=(?=\w)", r"--\1 ", spelled)
    spelled = re.sub(r"\buse (?=[a-z0-9]+_)", "use --", spelled)
    return f"{given} is not supported: {spelled}"
