"""Where `assay` and `python -m assay` begin: signals first, then everything else."""

from assay import interrupts

__all__ = ["main"]


def main() -> None:
    """The console script."""
    interrupts.watch()
    from assay.cli import main as command_line

    try:
        command_line()
    except SystemExit as ended:
        interrupts.leave_with(ended.code)
        raise


if __name__ == "__main__":
    main()
