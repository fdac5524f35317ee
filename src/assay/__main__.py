"""Where `assay` and `python -m assay` begin: signals first, then everything else."""

from assay import interrupts

__all__ = ["main"]


def main() -> None:
    """The console script."""
    interrupts.watch()
    from assay.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
