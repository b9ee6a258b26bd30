"""Public face of GLUE: ``ea.glue.load``, ``metrics``, ``TASKS``, leaderboard files."""

from evolving_attention.data.glue import TASKS, GlueDataset, get_task, in_domain, load
from evolving_attention.data.glue_tasks import GlueTask

__all__ = ["TASKS", "GlueDataset", "GlueTask", "get_task", "in_domain", "load"]
