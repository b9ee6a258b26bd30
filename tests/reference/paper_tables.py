"""Figures as the papers print them."""

from __future__ import annotations

EA, REALFORMER, CSAN = "Evolving Attention", "RealFormer", "CSAN"
TPAMI, PREDICTIVE = "Convolution-enhanced EA", "Predictive Attention"

# Model: average, then CoLA, SST-2, MRPC, STS-B, QQP, MNLI-m/-mm, QNLI, RTE and, in
# some tables, WNLI. A slash separates two metrics of a task.
GLUE_EA = """
BERT-Base           80.9 51.7 93.5 87.2/82.1 86.7/85.4 91.1/89.0 84.3/83.7 90.4 67.2
EA-BERT-Base        83.3 60.0 93.8 89.1/84.2 89.6/89.5 91.6/88.4 85.2/85.5 92.1 69.0
T5-Base             83.4 53.1 92.2 92.0/88.7 89.1/88.9 88.2/91.2 84.7/85.0 91.7 76.9
Synthesizer         84.0 53.3 92.2 91.2/87.7 89.3/88.9 88.6/91.4 85.0/84.6 92.3 81.2
EA-T5-Base          84.5 53.7 93.1 92.3/89.0 89.6/89.1 88.8/91.9 85.1/85.0 92.3 81.5
BERT-Large          83.7 60.5 94.9 89.3/85.4 87.6/86.5 92.1/89.3 86.8/85.9 92.7 70.1
RealFormer          84.3 59.8 94.0 90.9/87.0 90.1/89.9 91.3/88.3 86.3/86.3 91.9 73.7
EA-BERT-Large       85.3 62.9 95.2 90.9/89.4 89.7/88.2 92.4/90.1 87.9/86.8 93.9 72.4
RoBERTa-Large       86.4 63.8 96.3 91.0/89.4 72.9/90.2 92.7/90.1 89.5/89.7 94.2 84.2
EA-RoBERTa-Large    87.2 65.8 96.4 91.8/90.8 73.8/90.3 93.3/90.2 90.5/89.8 95.2 85.0
"""
GLUE_TPAMI = """
BERT-Base-dev       83.1 56.3 92.7 89.9/85.6 89.5/89.7 91.3/88.3 84.5/84.5 91.3 69.3
EA-BERT-Base-dev    84.4 61.6 93.6 90.9/87.0 90.0/90.2 91.5/88.5 84.9/85.0 92.0 70.8
BERT-Base-test      79.3 52.6 93.5 87.5/82.7 84.9/83.4 71.3/89.4 84.6/83.8 91.0 68.9
EA-BERT-Base-test   80.3 56.7 93.8 88.1/84.1 86.3/85.3 71.3/89.3 85.0/84.3 91.0 69.9
T5-Base-dev         83.5 53.1 92.2 92.0/88.7 89.1/88.9 88.2/91.2 84.7/85.0 91.7 76.9
Synthesizer-dev     84.1 53.3 92.2 91.2/87.7 89.3/88.9 88.6/91.4 85.0/84.6 92.3 81.2
EA-T5-Base-dev      84.6 53.7 93.1 92.3/89.0 89.6/89.1 88.8/91.9 85.1/85.0 92.3 81.5
BERT-Large-dev      84.3 60.5 94.9 89.3/85.4 87.6/86.5 92.1/89.3 86.8/85.9 92.7 70.1
RealFormer-dev      84.8 59.8 94.0 90.9/87.0 90.1/89.9 91.3/88.3 86.3/86.3 91.9 73.7
EA-BERT-Large-dev   85.7 62.9 95.2 90.9/89.4 89.7/88.2 92.4/90.1 87.9/86.8 93.9 72.4
RoBERTa-Large-dev   88.5 65.8 95.9 91.2/87.8 92.1/92.0 92.2/89.6 90.2/90.1 94.9 80.7
EA-RoBERTa-Large-dev 89.4 68.1 96.8 92.0/88.7 92.3/92.2 92.3/89.7 90.6/90.4 95.0 85.3
RoBERTa-Large-test  86.3 61.2 96.2 91.4/88.5 91.2/90.5 73.3/89.6 89.8/89.4 94.8 80.0
EA-RoBERTa-Large-test 87.3 66.1 96.4 92.1/89.2 91.5/90.7 73.4/89.8 90.5/89.8 94.9 83.7
"""
GLUE_PREDICTIVE = """
BERT-Base        77.4 51.7 93.5 87.2/82.1 86.7/85.4 91.1/89.0 84.3/83.7 90.4 67.2 65.1
PA-BERT-Base     81.5 59.8 93.7 88.9/90.8 89.3/89.2 91.4/88.3 84.8/85.2 92.0 68.6 65.1
BERT-Large       80.5 60.5 94.9 89.3/85.4 87.6/86.5 92.1/89.3 86.8/85.9 92.7 70.1 65.1
PA-BERT-Large    83.0 63.1 95.4 90.4/88.9 88.9/88.0 92.4/89.9 87.7/86.2 93.5 70.9 65.1
RoBERTa-Large    83.1 63.8 96.3 91.0/89.4 72.9/90.2 92.7/90.1 89.5/89.7 94.2 84.2 65.1
PA-RoBERTa-Large 83.9 65.4 96.5 91.8/90.6 73.6/90.3 93.0/90.1 90.3/89.7 95.0 85.2 65.1
T5-Base          83.2 51.1 95.2 90.7/87.5 89.4/88.6 72.6/89.4 87.1/86.2 93.7 80.1
PA-T5-Base       84.5 53.3 92.8 92.4/89.5 89.6/89.1 89.4/91.5 86.0/85.1 92.9 80.7
T5-Base-dev      83.5 53.1 92.2 92.0/88.7 89.1/88.9 88.2/91.2 84.7/85.0 91.7 76.9
Synthesizer-T5-Base-dev 84.1 53.3 92.2 91.2/87.7 89.3/88.9 88.6/91.4 85.0/84.6 92.3 81.2
PA-T5-Base-dev   84.4 53.6 92.4 92.2/89.1 89.7/89.1 89.7/91.7 85.4/84.9 92.5 80.7
"""
# RealFormer's own Table 3: MNLI-m and MNLI-nm are two tasks; QQP, STS-B and MRPC have
# two metrics. Model: average, MNLI-m, MNLI-nm, QQP, QNLI, SST-2, CoLA, STS-B, MRPC,
# RTE.
GLUE_REALFORMER = """
Post-LN    84.01 85.96 85.98 91.29/88.34 92.26 92.89 58.85 90.08/89.77 87.50/91.16 71.12
Pre-LN     83.47 85.03 85.05 91.29/88.33 92.35 93.81 58.04 90.06/89.62 86.76/90.69 68.59
RealFormer 84.53 86.28 86.34 91.34/88.28 91.89 94.04 59.83 90.11/89.88 87.01/90.91 73.65
"""
# Table 5: overall, GLUE, then two scores each of SQuAD 1.1 and 2.0
HALF_THE_STEPS = """
Post-LN-500K    83.97 83.84 91.46 84.87 81.44 78.64
Post-LN-1M      84.37 84.01 91.68 85.15 82.51 79.57
RealFormer-500K 84.51 84.34 91.56 85.06 82.52 79.54
"""

# CSAN, Table 1: BLEU of WMT14 En-De, and the gain over Transformer-Base (27.31)
BLEU_CSAN = {
    "BiDirect": ("27.58", "0.27"),
    "RelPos": ("27.63", "0.32"),
    "Neighbor": ("27.60", "0.29"),
    "LocalHard": ("27.73", "0.42"),
    "LocalSoft": ("27.81", "0.50"),
    "Block": ("27.59", "0.28"),
    "CNNs": ("27.70", "0.39"),
    "1D-CSANs": ("27.86", "0.55"),
    "2D-CSANs": ("28.18", "0.87"),
}

# Models of the time-series tables, and Table 2 of the TPAMI paper (accuracies).
# Table 1 (RMSE) is in tests/test_comparison.py.
SERIES_MODELS = (
    "LSTM",
    "GRU",
    "ResNet",
    "Dilated Conv",
    "Transformer",
    "DC-T",
    "EA-DC-T",
)
ACCURACY = """
EthanolConcentration 0.224 0.251 0.27  0.272 0.272 0.293 0.307
FaceDetection        0.644 0.661 0.667 0.669 0.664 0.672 0.685
Handwriting          0.156 0.159 0.25  0.251 0.282 0.319 0.329
Heartbeat            0.686 0.675 0.704 0.698 0.699 0.715 0.724
JapaneseVowels       0.827 0.871 0.954 0.955 0.979 0.982 0.985
PEMS-SF              0.742 0.798 0.811 0.803 0.724 0.825 0.829
SelfRegulationSCP1   0.836 0.877 0.887 0.882 0.885 0.893 0.896
SelfRegulationSCP2   0.459 0.511 0.481 0.454 0.491 0.493 0.526
SpokenArabicDigit    0.98  0.985 0.979 0.984 0.984 0.987 0.991
UWaveGestureLibrary  0.435 0.774 0.843 0.846 0.852 0.861 0.873
InsectWingbeat       0.575 0.574 0.610 0.619 0.639 0.630 0.622
"""
RANKS = ("6.5", "5.5", "4.5", "4.5", "3.8", "2.1", "1.2")
MEAN_ACCURACY = ("0.597", "0.649", "0.678", "0.676", "0.679", "0.697", "0.706")
# Row "Transformer" of Table 4, next to Transformer and Dilated Conv of Table 2
ABLATION_BASELINES = {"Handwriting": "0.251", "Heartbeat": "0.698"}

# Millions of parameters of EA-DC-T in Tables 1 and 2; channels, steps and outputs of
# the sets in their archives.
SERIES_SIZES = {
    "AppliancesEnergy": ("0.8", 24, 144, 1),
    "BenzeneConcentration": ("0.5", 8, 240, 1),
    "BeijingPM10": ("0.2", 9, 24, 1),
    "BeijingPM25": ("0.5", 9, 24, 1),
    "LiveFuelMoisture": ("0.3", 7, 365, 1),
    "IEEEPPG": ("5.8", 5, 1000, 1),
    "EthanolConcentration": ("0.8", 3, 1751, 4),
    "FaceDetection": ("0.5", 144, 62, 2),
    "Handwriting": ("0.7", 3, 152, 26),
    "Heartbeat": ("0.3", 61, 405, 2),
    "JapaneseVowels": ("0.5", 12, 29, 9),
    "PEMS-SF": ("0.5", 963, 144, 7),
    "SelfRegulationSCP1": ("0.8", 6, 896, 2),
    "SelfRegulationSCP2": ("0.9", 7, 1152, 2),
    "SpokenArabicDigits": ("0.3", 13, 93, 10),
    "UWaveGestureLibrary": ("2.0", 3, 315, 8),
    "InsectWingbeat": ("0.5", 200, 30, 10),
}

# ICML paper, Table 10: α and β of EA-Transformer, for all three languages
TRANSLATION = {"lite": (0.1, 0.1), "base": (0.5, 0.1)}

# The grids that the papers searched, and what they fixed, by the name of the space.
_GLUE = {
    "learning_rate": {1e-4, 1e-5, 2e-5},
    "per_device_train_batch_size": {8, 16},
    "num_train_epochs": {2, 3, 5},
}
SEARCHED = {
    # ICML paper, Section 4.2
    "icml-glue": (
        {**_GLUE, "alpha": {0.1, 0.2, 0.4}, "beta": {0.1, 0.2, 0.4}},
        {"attention": "evolving", "adam_epsilon": 1e-8},
    ),
    "icml-glue-plain": (_GLUE, {"adam_epsilon": 1e-8}),
    # Section 4.3
    "icml-translation": (
        {"learning_rate": {1e-4, 5e-4, 1e-3}, "dropout": {0.1, 0.2, 0.3}},
        {},
    ),
    # Predictive paper, appendix B.2.2
    "predictive-glue": (
        {**_GLUE, "alpha": {0.1, 0.2, 0.4}},
        {"attention": "predictive", "adam_epsilon": 1e-8},
    ),
    # Section 4.1.1: {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, ..., 0.9}
    "predictive-text": (
        {
            "alpha": {0.01, 0.025, 0.05, 0.075, 0.1, 0.15}
            | {0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}
        },
        {"attention": "predictive"},
    ),
    # Table 5
    "predictive-text-layers": (
        {"predictive_layers": {0, 1, 2, 3}},
        {"attention": "predictive"},
    ),
    # RealFormer, Section 4.1.2
    "realformer-glue": (
        {
            "learning_rate": {6e-6, 8e-6, 1e-5, 2e-5, 3e-5, 4e-5, 5e-5},
            "num_train_epochs": {2, 3, 4},
        },
        {"attention": "residual", "per_device_train_batch_size": 32},
    ),
    "realformer-squad": (
        {
            "learning_rate": {2e-5, 3e-5, 4e-5, 5e-5},
            "num_train_epochs": {2, 3, 4},
            "per_device_train_batch_size": {32, 48},
        },
        {"attention": "residual"},
    ),
    # TPAMI paper, Section 4.1
    "journal-series": (
        {
            "hidden_size": {64, 128},
            "num_blocks": {2, 3, 4, 5},
            "attention_ratio": {0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875},
            "alpha": {0.1, 0.3, 0.5, 0.7, 0.9},
            "beta": {0.1, 0.3, 0.5, 0.7, 0.9},
        },
        {"attention": "evolving"},
    ),
}

# Top-1 accuracy: base, with evolving (predictive) attention, and relative gain.
GAINS = {
    (EA, "Table 1, ResNet-34"): ("74.33", "75.23", "1.21"),
    (EA, "Table 1, ResNet-50"): ("77.70", "78.22", "0.67"),
    (EA, "Table 1, ResNet-101"): ("78.50", "79.29", "0.80"),
    (EA, "Table 1, ResNet-152"): ("79.10", "79.63", "0.67"),
    (TPAMI, "Table 10, ViT-B/32"): ("81.22", "81.48", "0.32"),
    (TPAMI, "Table 10, ViT-B/16"): ("84.13", "84.47", "0.40"),
    (TPAMI, "Table 10, ViT-L/32"): ("81.12", "81.50", "0.47"),
    (TPAMI, "Table 10, ViT-L/16"): ("85.01", "85.17", "0.19"),
    (PREDICTIVE, "Table 4, ResNet-34"): ("74.33", "74.90", "0.73"),
    (PREDICTIVE, "Table 4, ResNet-50"): ("77.15", "77.55", "0.51"),
    (PREDICTIVE, "Table 4, ResNet-101"): ("78.31", "78.49", "0.23"),
}


def glue_rows(text: str) -> dict[str, tuple[str, list[list[str]]]]:
    """Returns {model: (printed average, [[metric, …] of each task])}."""
    rows = {}
    for line in text.strip().splitlines():
        model, average, *tasks = line.split()
        rows[model] = (average, [task.split("/") for task in tasks])
    return rows


def table(text: str) -> dict[str, list[str]]:
    """Returns {first word: other words} for each line."""
    return {line.split()[0]: line.split()[1:] for line in text.strip().splitlines()}
