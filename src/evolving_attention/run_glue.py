"""``python -m evolving_attention.run_glue`` is ``evolving-attention glue``."""

import sys

from evolving_attention.cli.common import set_up_process
from evolving_attention.cli.glue import main

if __name__ == "__main__":
    set_up_process()
    main(sys.argv[1:], "run_glue.py")
