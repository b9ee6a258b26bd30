"""``python -m evolving_attention.run_glue`` is ``evolving-attention glue``."""

import sys

from evolving_attention.cli.glue import main

if __name__ == "__main__":
    main(sys.argv[1:], "run_glue.py")
