"""All cases of all ops: what the gradient, agreement and determinism tests walk."""

from __future__ import annotations

from support.cell_cases import cell_cases
from support.edge_cases import edge_cases
from support.fused_cases import fused_cases
from support.image_cases import image_cases
from support.map_cases import map_cases
from support.op_cases import dense_cases
from support.row_cases import row_cases
from support.selection_cases import selection_cases
from support.sequence_cases import sequence_cases
from support.window_cases import window_cases

CASES = [
    *dense_cases(),
    *selection_cases(),
    *row_cases(),
    *map_cases(),
    *cell_cases(),
    *edge_cases(),
    *fused_cases(),
    *sequence_cases(),
    *window_cases(),
    *image_cases(),
]
